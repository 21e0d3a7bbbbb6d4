"""A lock as git shows it, and three locks as git merges them. Pure.

A merge of two resolutions is no resolution: what comes out carries no profile's digest, so `lock --check` calls it
stale and `envlock lock` settles it, keeping every pin that still fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from envlock.lock.document import Lock, Package

UNSETTLED = "0" * 64
"""The profile digest of a merged lock: it answers no profile until it is locked again."""


def shown(lock: Lock) -> str:
    """Return a lock as `git diff` should show it: one line a package, hashes short."""
    torch = lock.torch
    head = [f"profile {lock.profile}, Python {lock.python}, {lock.machine}, glibc {lock.glibc}"]
    if torch is not None:
        head.append(f"torch {torch.version}, CUDA {torch.cuda}, driver {torch.driver_floor} or newer")
    lines = [
        f"{package.name} {package.version} ({package.index or (package.direct.location if package.direct else '')})"
        f"{f' {package.artifacts[0].sha256[:10]}' if package.artifacts else ''}"
        for package in lock.packages
    ]
    return "\n".join([*head, *lines]) + "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """What a three-way merge came to; with conflicts there is no lock."""

    lock: Lock | None
    conflicts: tuple[str, ...]
    """`torch: 2.10.0 here, 2.11.0 there`."""


def merge(base: Lock | None, ours: Lock, theirs: Lock) -> Merged:
    """Merge two locks package by package; the same package changed on both sides is a conflict."""
    old = {} if base is None else base.by_name
    packages: list[Package] = []
    conflicts: list[str] = []
    for name in sorted({*ours.by_name, *theirs.by_name}):
        was, mine, other = old.get(name), ours.by_name.get(name), theirs.by_name.get(name)
        if other in (mine, was):
            chosen = mine
        elif mine == was:
            chosen = other
        else:
            conflicts.append(f"{name}: {_version(mine)} here, {_version(other)} there")
            continue
        if chosen is not None:
            packages.append(chosen)
    if conflicts:
        return Merged(lock=None, conflicts=tuple(conflicts))
    torch = ours.torch if ours.by_name.get("torch") in packages else theirs.torch
    return Merged(lock=replace(ours, profile_digest=UNSETTLED, packages=tuple(packages), torch=torch), conflicts=())


def _version(package: Package | None) -> str:
    return "removed" if package is None else package.version
