"""What a lock says. The model only; `lock/text.py` reads and writes it. Nothing here touches the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from envlock.lock.canonical import FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """One file an index serves, named by what does not change when it is mirrored."""

    file: str
    size: int | None
    """Bytes, when the index tells."""
    sha256: str

    @property
    def is_wheel(self) -> bool:
        """Tell a wheel from a source distribution."""
        return self.file.endswith(".whl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Direct:
    """A package that comes from no index: a URL, a git revision or a local path."""

    kind: Literal["url", "git", "path"]
    location: str
    """The URL or path as the profile wrote it (no credentials)."""
    revision: str | None = None
    """The full commit for git."""
    subdirectory: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How many device-code containers of a package's libraries can run on one compute capability."""

    sass: int
    ptx: int
    none: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCode:
    """A package's device code as read from its wheel: what a reviewer sees without the environment."""

    targets: tuple[str, ...]
    """Every target found, `sm_90a` or `compute_90`, sorted."""
    coverage: Mapping[str, Coverage]
    """Per declared compute capability (`12.0`)."""
    uncovered: tuple[str, ...] = ()
    """Library paths below site-packages that hold device code and none of it for the declared capability."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One distribution of a lock."""

    name: str
    """Normalised (PEP 503)."""
    version: str
    index: str
    """Logical index name; empty for a direct reference."""
    requires: tuple[str, ...] = ()
    """Direct dependencies that hold on the lock's platform, as PEP 508 with extras and specifiers, no markers."""
    artifacts: tuple[Artifact, ...] = ()
    """What may be installed: the one file that fits the platform best."""
    direct: Direct | None = None
    license: str = ""
    requires_python: str = ""
    device_code: DeviceCode | None = None
    installed_size: int | None = field(default=None, compare=False)
    """Bytes the wheel unpacks to; None: not known. It follows from the artifact: no difference of its own."""
    yanked: str | None = None
    """Why its index had withdrawn the file when it was locked, empty when no reason was given; None: it had not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchBuild:
    """The torch build of a lock and what follows from it."""

    version: str
    cuda: str | None
    """Major.minor read from the wheel's own metadata; None: CPU build."""
    runtime: str
    """The evidence, `nvidia-cuda-runtime-cu12==12.8.90` or `local version +cu128`."""
    driver_floor: str | None
    """The oldest Linux driver that runs this CUDA release by minor-version compatibility."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """What a profile resolved to: a pure function of the profile and the indexes at that moment."""

    profile: str
    profile_digest: str
    """`declare.profile.fingerprint` of the profile this lock answers."""
    inputs: Mapping[str, object]
    """`resolution_inputs` and `launch_inputs` as they were, so that staleness can name both values."""
    python: str
    machine: str
    glibc: str
    torch: TorchBuild | None
    packages: tuple[Package, ...]
    """Sorted by name; one version of each."""
    format: int = FORMAT
    by_name: Mapping[str, Package] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {package.name: package for package in self.packages})

    def package(self, name: str) -> Package | None:
        """Return the package of that normalised name, or None."""
        return self.by_name.get(name)
