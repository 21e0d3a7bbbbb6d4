"""Importing another tool's lock: its pins become a profile and a lock, held against its hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock import disk
from envlock.declare.profile import Profile
from envlock.errors import UsageError
from envlock.layout import Layout, is_profile_name
from envlock.lock.document import Lock
from envlock.resolve.target import marker_environment
from envlock.review.adoption import Adopted, profile_text, understand
from envlock.review.imports import Pinned, read
from envlock.workflows import lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What importing came to."""

    adopted: Adopted
    lock: Lock
    differences: tuple[str, ...]
    """Where the new lock is not what the file said."""


def import_lock(
    layout: Layout, file: Path, name: str, python: str, environ: Mapping[str, str], say: lock.Say
) -> Imported:
    """Write a profile and a lock for another tool's lock. Raises UsageError, FileError, and what locking raises."""
    if not is_profile_name(name):
        raise UsageError(f"{name!r} cannot name a profile", expected="lower-case letters, digits, - and _")
    if layout.profile(name).exists():
        raise UsageError(f"profiles/{name}.toml is there already", hint="choose another name with --as")
    target = marker_environment(Profile(name=name, python=python))
    pinned = read(file.name, file.read_text(errors="replace"), {key: str(held) for key, held in target.items()})
    adopted = understand(python, None, pinned.packages)
    disk.write_atomically(layout.profile(name), profile_text(adopted, file.name))
    try:
        made = lock.lock_one(layout, name, lock.Options(), environ, say).after
    except BaseException:
        layout.profile(name).unlink()
        raise
    assert made is not None
    return Imported(adopted=adopted, lock=made, differences=_differences(pinned, made))


def _differences(pinned: Pinned, made: Lock) -> tuple[str, ...]:
    found = []
    for one in pinned.packages:
        package = made.package(one.name)
        if package is None:
            found.append(f"{one.name} {one.version}: {one.origin or 'nothing on this platform asks for it'}; left out")
        elif one.version and package.version != one.version:
            found.append(f"{one.name}: {one.version} in the file, {package.version} in the lock")
        elif (
            pinned.hashes.get(one.name)
            and package.artifacts
            and package.artifacts[0].sha256 not in pinned.hashes[one.name]
        ):
            found.append(f"{one.name} {one.version}: the index serves other bytes than the file allows")
    known = {one.name for one in pinned.packages}
    found += [f"{p.name} {p.version}: asked for here, not in the file" for p in made.packages if p.name not in known]
    return tuple(found)
