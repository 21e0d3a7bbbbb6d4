"""What a profile can declare. Values only: no file, no default that depends on the machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PYPI = "pypi"  # the logical name of the default index; its URL comes from uv unless configuration maps it

Links = Literal["auto", "reflink", "hardlink", "copy"]
Lint = Literal["off", "warn", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """A package index by its logical name. With `only`, it serves these names, and only it does."""

    name: str
    url: str
    only: tuple[str, ...] = ()
    """Normalised distribution names; empty: an additional index for anything the default does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """The torch build a stack stands on."""

    version: str
    cuda: str | None
    """Major.minor of the CUDA runtime the wheel was built for; None: the CPU build."""
    index: str = PYPI


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """What the stack needs of the GPUs."""

    compute_capability: str
    """Major.minor, `12.0` for SM120."""
    count: int = 1
    min_driver: str | None = None
    """None: derived from the CUDA runtime."""
    min_free_memory: int = 0
    """Bytes per GPU before launch."""
    exclusive: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """Which libraries must have code for the GPU, and which may lack it, with the reason."""

    require: tuple[str, ...] = ()
    """Import names, or globs of library paths below site-packages."""
    accept_missing: Mapping[str, str] = field(default_factory=dict)
    lint: Lint = "warn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Environ:
    """Environment variables: what is set, and which of the caller's names cross (globs)."""

    set: Mapping[str, str] = field(default_factory=dict)
    pass_: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """The platform a lock is made for: Linux, one machine type, a glibc floor."""

    machine: Literal["x86_64", "aarch64"] = "x86_64"
    glibc: str = "2.28"
    """The oldest glibc the environment may meet; wheels that need a newer one are not taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """How to build a package that has no wheel."""

    requires: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    isolation: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One stack as declared, `extends` already applied."""

    name: str
    description: str = ""
    extends: tuple[str, ...] = ()
    """The chain of parents, nearest first; for people, not part of the fingerprint."""
    python: str
    """Major.minor, or major.minor.micro to insist."""
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prerelease: Literal["disallow", "allow"] | tuple[str, ...] = "disallow"
    """`allow` for all, or the names that may be pre-releases."""
    exclude_newer: str | None = None
    torch: Torch | None = None
    indexes: tuple[Index, ...] = ()
    gpu: Gpu | None = None
    kernels: Kernels = Kernels()
    env: Environ = Environ()
    platform: Platform = Platform()
    builds: Mapping[str, Build] = field(default_factory=dict)
    overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Winner -> losers: packages that install the same files with other bytes, and whose bytes are wanted."""
    links: Links = "auto"
    """How files get from uv's cache into an environment; not part of the fingerprint."""
    container: str | None = None
    """The container this profile is meant for; not part of the fingerprint."""

    def index(self, name: str) -> Index | None:
        """Return the declared index of that logical name, or None (`pypi` needs no declaration)."""
        return next((index for index in self.indexes if index.name == name), None)


def resolution_inputs(profile: Profile) -> dict[str, object]:
    """Return what decides the resolution, as plain JSON values in a fixed order.

    Index URLs are left out: an index is its logical name, and a mirror must not make a lock stale.
    """
    return {
        "python": profile.python,
        "platform": {"machine": profile.platform.machine, "glibc": profile.platform.glibc},
        "requirements": sorted(profile.requirements),
        "constraints": sorted(profile.constraints),
        "overrides": sorted(profile.overrides),
        "exclude": sorted(profile.exclude),
        "prerelease": profile.prerelease if isinstance(profile.prerelease, str) else sorted(profile.prerelease),
        "exclude-newer": profile.exclude_newer,
        "torch": None
        if profile.torch is None
        else {"version": profile.torch.version, "cuda": profile.torch.cuda, "index": profile.torch.index},
        "index": [{"name": index.name, "only": sorted(index.only)} for index in profile.indexes],
        "build": {
            name: {
                "requires": list(build.requires),
                "env": dict(sorted(build.env.items())),
                "isolation": build.isolation,
            }
            for name, build in sorted(profile.builds.items())
        },
        "overlaps": {name: sorted(losers) for name, losers in sorted(profile.overlaps.items())},
    }


def launch_inputs(profile: Profile) -> dict[str, object]:
    """Return what decides whether and how the stack may be launched, as plain JSON values in a fixed order."""
    gpu, kernels, env = profile.gpu, profile.kernels, profile.env
    return {
        "gpu": None
        if gpu is None
        else {
            "compute-capability": gpu.compute_capability,
            "count": gpu.count,
            "min-driver": gpu.min_driver,
            "min-free-memory": gpu.min_free_memory,
            "exclusive": gpu.exclusive,
        },
        "kernels": {
            "require": list(kernels.require),
            "accept-missing": dict(sorted(kernels.accept_missing.items())),
            "lint": kernels.lint,
        },
        "env": {"set": dict(sorted(env.set.items())), "pass": sorted(env.pass_)},
    }


def lock_inputs(profile: Profile) -> dict[str, object]:
    """Return what a lock keeps of its profile, as TOML can hold it (no nulls, no empty tables)."""
    kept = _without_nothing({**resolution_inputs(profile), **launch_inputs(profile)})
    assert isinstance(kept, dict)
    return kept


def _without_nothing(item: object) -> object:
    if isinstance(item, Mapping):
        children = {name: _without_nothing(child) for name, child in item.items()}
        return {name: child for name, child in children.items() if child not in (None, {}, [], "")}
    if isinstance(item, (list, tuple)):
        return [_without_nothing(child) for child in item]
    return item


def fingerprint(profile: Profile) -> str:
    """Return the sha256 (hex) of everything in the fully extended profile that a lock answers.

    What is absent or empty does not count, so that a later envlock with one more key leaves old locks fresh.
    """
    inputs = {"name": profile.name, **lock_inputs(profile)}
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
