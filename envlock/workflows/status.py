"""One glance at everything: each profile's lock, environment and torch build, from files alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from envlock.declare.files import load_profile, profile_names
from envlock.environment import store
from envlock.environment.inventory import drifted
from envlock.environment.seal import Seal
from envlock.errors import EnvlockError, LockStale, StoreError
from envlock.layout import Layout
from envlock.lock.files import load_lock
from envlock.lock.freshness import compare


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How one profile stands here."""

    name: str
    locked: str
    """`fresh`, `stale`, `missing` or `broken`."""
    synced: str
    """`current`, `stale`, `missing` or `drifted`."""
    generation: str | None = None
    torch: str | None = None
    cuda: str | None = None
    bytes: int | None = None
    python: str | None = None
    generations: int = 0
    notes: tuple[str, ...] = ()
    """Why it is not as it should be."""
    remedy: str = ""


def status(layout: Layout, names: tuple[str, ...] = ()) -> tuple[Standing, ...]:
    """Return the standing of the profiles that are stacks of their own (all of them unless named)."""
    found = []
    for name in names or profile_names(layout):
        try:
            profile = load_profile(layout, name)
        except EnvlockError as error:
            if names:
                raise
            found.append(Standing(name=name, locked="broken", synced="missing", notes=(str(error),)))
            continue
        if names or profile.requirements or profile.torch:
            found.append(_standing(layout, name))
    return tuple(found)


def _standing(layout: Layout, name: str) -> Standing:
    notes: list[str] = []
    digest = ""
    try:
        lock, digest = load_lock(layout, name)
        changes = compare(load_profile(layout, name), lock)
        locked = "stale" if changes else "fresh"
        notes += map(str, changes)
    except LockStale:
        locked = "missing"
    except EnvlockError as error:
        locked = "broken"
        notes.append(str(error))
    seal = _current_seal(layout, name)
    synced = _synced(layout, seal, digest, notes)
    if locked != "fresh":
        remedy = f"envlock lock {name}"
    elif synced == "drifted":
        remedy = f"envlock sync --rebuild {name}"
    else:
        remedy = "" if synced == "current" else f"envlock sync {name}"
    return Standing(
        name=name,
        locked=locked,
        synced=synced,
        generation=None if seal is None else seal.generation,
        torch=None if seal is None or seal.torch is None else seal.torch.version,
        cuda=None if seal is None or seal.torch is None else seal.torch.cuda,
        bytes=None if seal is None else seal.bytes,
        python=None if seal is None else seal.python,
        generations=len(store.generations(layout, name)),
        notes=tuple(notes),
        remedy=remedy,
    )


def _current_seal(layout: Layout, name: str) -> Seal | None:
    generation = store.current_generation(layout, name)
    if generation is None:
        return None
    try:
        return store.read_seal(layout.generation(name, generation))
    except StoreError:
        return None


def _synced(layout: Layout, seal: Seal | None, digest: str, notes: list[str]) -> str:
    if seal is None:
        return "missing"
    prefix = layout.generation(seal.profile, seal.generation)
    if not store.lies_where_built(seal, prefix) or not os.access(seal.base_python, os.X_OK):
        notes.append(f"built at {seal.prefix} on {seal.base_python}: moved, or its Python is gone")
        return "drifted"
    try:
        differences = drifted(prefix)
    except StoreError as error:
        notes.append(str(error))
        return "drifted"
    if differences:
        first = differences[0]
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        notes.append(f"{first.path} ({first.package or 'no package'}) {first.kind}{more}")
        return "drifted"
    return "current" if seal.lock_digest == digest else "stale"
