"""History, rollback, pins and collection: what became of a profile's generations, and going back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock import disk
from envlock.environment import bytecode, origin, store
from envlock.environment.parts import PartMemory
from envlock.environment.seal import FOLDER
from envlock.errors import EnvlockError
from envlock.launch import journal, lease
from envlock.layout import Layout
from envlock.lock.diff import compare
from envlock.lock.document import Lock
from envlock.lock.files import read_lock
from envlock.review import garbage, processes
from envlock.review.history import Row, pins, rows
from envlock.review.report import counts
from envlock.workflows import rollback as going_back


def history(layout: Layout, name: str) -> tuple[Row, ...]:
    """Return a profile's generations, oldest first."""
    present = store.generations(layout, name)
    changes: dict[str, str] = {}
    before: Lock | None = None
    for generation in present:
        after = lock_of(layout, name, generation)
        if after is not None:
            difference = compare(before, after)
            changes[generation] = _line(before, after) if before is not None else f"{len(after.packages)} packages"
            if before is not None and difference.empty:
                changes[generation] = "the same lock, built again"
            before = after
    launches = [entry for entry in journal.read(layout.launches) if entry.get("profile") == name]
    return rows(
        store.read_history(layout, name),
        launches,
        present=present,
        current=store.current_generation(layout, name),
        changes=changes,
    )


def _line(before: Lock, after: Lock) -> str:
    if before.torch != after.torch and before.torch is not None and after.torch is not None:
        was, now = before.torch, after.torch
        return f"torch {was.version} (CUDA {was.cuda}) -> {now.version} (CUDA {now.cuda})"
    difference = compare(before, after)
    few = [change.name for change in difference.packages][:3]
    return f"{counts(difference)}: {', '.join(few)}" if few else counts(difference)


def lock_of(layout: Layout, name: str, generation: str) -> Lock | None:
    """Return the lock a generation was built from, as its seal kept it."""
    try:
        return read_lock(layout.generation(name, generation) / FOLDER / "lock.toml", name)[0]
    except EnvlockError:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledBack:
    """What a rollback did."""

    name: str
    before: str | None
    after: str
    lock: str
    """`restored`, `unchanged`, or why it was left alone."""


def rollback(
    layout: Layout, name: str, wanted: str | None, *, with_lock: bool, confirm: Callable[[str], bool]
) -> RolledBack:
    """Make an earlier generation current again, by rename; `with_lock` puts its lock file back too.

    A lock with uncommitted changes is only replaced when `confirm` says so. Raises UsageError, StoreError.
    """
    before, after, lock = going_back.back(
        str(layout.environments(name)),
        name,
        wanted,
        project=str(layout.project),
        put_back=(lambda prefix: _put_lock_back(layout, name, Path(prefix), confirm)) if with_lock else None,
    )
    return RolledBack(name=name, before=before, after=after, lock=lock)


def _put_lock_back(layout: Layout, name: str, prefix: Path, confirm: Callable[[str], bool]) -> str:
    path, kept = layout.lock(name), prefix / FOLDER / "lock.toml"
    content = kept.read_bytes()
    if path.is_file() and path.read_bytes() == content:
        return "unchanged"
    from envlock.review.git import git

    told = git(layout.project, "status", "--porcelain", "--", str(path))
    dirty = told.returncode != 0 or told.stdout.strip()
    if path.is_file() and dirty and not confirm(f"locks/{name}.toml has changes that are not committed; replace it?"):
        return "left alone: it has uncommitted changes"
    disk.write_atomically(path, content)
    return "restored"


def pin(layout: Layout, name: str, wanted: str | None, *, held: bool) -> str:
    """Pin a generation (the current one by default) against collection, or take the pin off."""
    generation = (
        going_back.chosen(str(layout.environments(name)), name, wanted)
        if wanted
        else store.current_prefix(layout, name).name
    )
    store.append_history(
        layout,
        name,
        {
            "event": "pinned" if held else "unpinned",
            "generation": generation,
            "time": origin.now(),
            **origin.of(layout.project),
        },
    )
    return generation


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What a collection removed, or would."""

    removed: Mapping[str, tuple[str, ...]]
    kept: Mapping[str, tuple[garbage.Kept, ...]]
    leftovers: tuple[str, ...]
    """Half-built folders of interrupted syncs."""
    apparent: int
    """Bytes on disk that the removed folders seem to hold, every name counted."""
    freed: int
    """Bytes that really vanish: hard links to what stays are not counted."""


def collect(layout: Layout, names: tuple[str, ...], *, keep: int, dry_run: bool) -> Collected:
    """Remove generations that nobody needs. Raises StoreError."""
    folder = layout.home / "envs"
    there = (
        names or tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir())) if folder.is_dir() else ()
    )
    removed: dict[str, tuple[str, ...]] = {}
    kept: dict[str, tuple[garbage.Kept, ...]] = {}
    leftovers: list[str] = []
    links: dict[tuple[int, int], tuple[int, int, int]] = {}
    apparent = 0
    for name in there:
        with disk.locked(layout.building(name)):
            generations = store.generations(layout, name)
            choice = garbage.choose(
                generations,
                current=store.current_generation(layout, name),
                pinned=pins(store.read_history(layout, name)),
                in_use=_in_use([layout.generation(name, one) for one in generations]),
                keep=keep,
            )
            doomed = [layout.generation(name, one) for one in choice.remove]
            left = list(store.unsealed(layout, name))
            for path in (*doomed, *left):
                apparent += _count_links(path, links)
            removed[name], kept[name] = choice.remove, choice.kept
            leftovers += [f"{name}/{path.name}" for path in left]
            if not dry_run:
                for path in (*doomed, *left):
                    disk.remove_tree(path)
                for one in choice.remove:
                    store.append_history(layout, name, {"event": "removed", "generation": one, "time": origin.now()})
    if not dry_run:
        PartMemory(layout.cache).drop_unused()
        bytecode.drop_former(layout.cache)
    return Collected(
        removed=removed, kept=kept, leftovers=tuple(leftovers), apparent=apparent, freed=garbage.freed(links)
    )


def _count_links(folder: Path, links: dict[tuple[int, int], tuple[int, int, int]]) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for file in files:
            status = os.lstat(f"{root}/{file}")
            key = (status.st_dev, status.st_ino)
            inside = links.get(key, (0, 0, 0))[0] + 1
            links[key] = (inside, status.st_nlink, status.st_blocks * 512)
            total += status.st_blocks * 512
    return total


def _in_use(prefixes: list[Path]) -> dict[str, str]:
    """Return prefix name -> who uses it: launches by their lease, anything else by what it runs or maps."""
    leased = {prefix.name: "a launch holds it" for prefix in prefixes if lease.held(prefix)}
    return {**processes.users_of(prefixes), **leased}
