"""The seal: the record written when a generation is complete. No seal, no environment.

It lies in `GENERATION/seal/`:

    seal.json   this model; small, the launch path reads it with `json` alone; holds the sha256 of the others
    inventory   one line a file, sorted by path (environment/inventory.py)
    bytecode    the same of `__pycache__`, for `--deep`
    lock.toml   the lock this generation was built from, byte for byte
    code.json   device code per library (verify/)
    stamp       `mtime_ns size path` of what the launch path compares (environment/stamp.py)
    guard       what the guard knows of its environment, `key value` lines (launch/guard_install.py)
    lease       empty; a running launch holds a shared flock on it, so gc knows

Pure: values and their JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

FORMAT = 1
FOLDER = "seal"
LEASE = "lease"
LISTS = frozenset({"inventory", "bytecode", "stamp"})
"""Files of the seal with a line for every file of the generation: megabytes, held against `digests` with `--deep`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SealedPackage:
    """One installed distribution and the artifact it came from."""

    name: str
    version: str
    index: str
    sha256: str
    """Of the artifact that was installed."""
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SealedTorch:
    """The torch build as the environment's own files tell it."""

    version: str
    """`torch/version.py`: `2.11.0+cu130`."""
    cuda: str | None
    distribution: str
    """The distribution's metadata version, which may hide the build: `2.11.0`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """What was built, from what, and what it must still be."""

    profile: str
    generation: str
    lock_digest: str
    """sha256 of the lock file's bytes."""
    profile_digest: str
    environment_digest: str
    """sha256 of the tree with the prefix taken out: the same on every host that realised the same lock."""
    prefix: str
    """The absolute path this generation was built at and must stay at."""
    python: str
    """Full version of the base interpreter, `3.11.7`."""
    base_python: str
    """Real path of the base interpreter's executable."""
    glibc: str
    """The lock's floor."""
    torch: SealedTorch | None
    declared: Mapping[str, object]
    """`declare.profile.launch_inputs`: gpu, kernels, env."""
    driver_floor: str | None
    packages: tuple[SealedPackage, ...]
    links: str
    """How files came from the cache: reflink, hardlink or copy."""
    files: int
    bytes: int
    created: str
    """UTC, ISO 8601."""
    envlock: str
    uv: str
    origin: Mapping[str, str] = field(default_factory=dict)
    """Who and from where: user, host, git commit of the project."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """File of the seal -> its sha256. Empty in a seal that was written before there were any."""
    format: int = FORMAT


def digests_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what `digests` holds of the files of a seal: of all but the lease, which holds nothing."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items()) if name != LEASE}


def dump(seal: Seal) -> str:
    """Return the seal as JSON text."""
    return json.dumps(asdict(seal), indent=1, ensure_ascii=False) + "\n"


def load(text: str) -> Seal:
    """Return the seal a JSON text holds. Raises ValueError, KeyError or TypeError when it is none."""
    data = json.loads(text)
    if data.get("format") != FORMAT:
        raise ValueError(f"seal format {data.get('format')!r}, this envlock reads {FORMAT}")
    torch = data.pop("torch")
    packages = data.pop("packages")
    return Seal(
        torch=None if torch is None else SealedTorch(**torch),
        packages=tuple(SealedPackage(**package) for package in packages),
        **data,
    )
