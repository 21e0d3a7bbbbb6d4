"""Finding the two sides of a comparison, wherever they are, and judging them."""

from __future__ import annotations

from pathlib import Path

from envlock.errors import UsageError
from envlock.layout import Layout, is_profile_name
from envlock.lock import text
from envlock.lock.diff import compare
from envlock.lock.document import Lock
from envlock.lock.files import load_lock, read_lock
from envlock.review.findings import judge
from envlock.review.report import Comparison


def side(layout: Layout, spec: str) -> Lock:
    """Return the lock a word names: a profile, `NAME@env` (what is installed), `NAME@0003-...`, `REV:NAME`, a file.

    Raises UsageError when it names nothing, LockError when what it names is damaged.
    """
    name, at, generation = spec.partition("@")
    if at and is_profile_name(name):
        from envlock.environment import store  # late, like git: comparing two files needs neither
        from envlock.environment.seal import FOLDER

        chosen = (
            store.current_generation(layout, name) if generation == "env" else _generation(layout, name, generation)
        )
        if chosen is None:
            raise UsageError(f"profile {name} has no environment here", hint=f"envlock sync {name}")
        return read_lock(layout.generation(name, chosen) / FOLDER / "lock.toml", name)[0]
    if is_profile_name(spec) and (layout.lock(spec).is_file() or layout.profile(spec).is_file()):
        return load_lock(layout, spec)[0]
    revision, colon, name = spec.rpartition(":")
    if colon and is_profile_name(name):
        from envlock.review import git

        found = git.lock_at(layout, revision, name)
        if found is None:
            raise UsageError(f"{revision} has no locks/{name}.toml")
        return found
    if Path(spec).is_file():
        return read_lock(Path(spec))[0]
    raise UsageError(
        f"{spec!r} names no lock",
        expected="a profile, NAME@env, NAME@GENERATION, REVISION:NAME, or a lock file",
        hint="envlock list shows the profiles, envlock history NAME the generations",
    )


def _generation(layout: Layout, name: str, wanted: str) -> str | None:
    from envlock.environment import store

    there = store.generations(layout, name)
    found = [one for one in there if one == wanted or one.startswith(f"{wanted}-") or one.lstrip("0") == wanted]
    if not found:
        raise UsageError(f"profile {name} has no generation {wanted!r}", found=", ".join(there) or "none")
    return found[-1]


def between(layout: Layout, before: str, after: str) -> Comparison:
    """Compare two sides named as `side` takes them."""
    return _judged(before, after, side(layout, before), side(layout, after))


def since(layout: Layout, revision: str, until: str | None, names: tuple[str, ...] = ()) -> tuple[Comparison, ...]:
    """Compare every lock (or the named ones) at a revision with another revision, or with the working tree."""
    from envlock.review import git

    old = git.locks_at(layout, revision)
    if until is not None:
        new = git.locks_at(layout, until)
    else:
        paths = sorted(layout.locks.glob("*.toml")) if layout.locks.is_dir() else []
        new = {path.stem: path.read_text() for path in paths}
    found = []
    for name in sorted({*old, *new}):
        if (names and name not in names) or old.get(name) == new.get(name):
            continue
        before = None if name not in old else text.parse(old[name], f"{revision}:locks/{name}.toml", profile=name)
        after = None if name not in new else text.parse(new[name], f"locks/{name}.toml", profile=name)
        found.append(_judged(f"{name}@{revision}", f"{name}{f'@{until}' if until else ''}", before, after))
    return tuple(found)


def _judged(before: str, after: str, old: Lock | None, new: Lock | None) -> Comparison:
    difference = compare(old, new)
    return Comparison(before=before, after=after, difference=difference, findings=judge(difference))
