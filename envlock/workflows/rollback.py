"""Going back to an earlier generation: chosen, checked, switched to by rename, written down. Light to import."""

from __future__ import annotations

import os

from envlock import disk
from envlock.environment import generations, origin, stamp
from envlock.errors import EnvironmentMissing, StoreError, UsageError
from envlock.lock import canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def chosen(environments: str, name: str, wanted: str | None) -> str:
    """Return the generation a word names (`0003`, `3`, the whole id), or the one before the current.

    Raises UsageError, EnvironmentMissing.
    """
    there = generations.listed(environments)
    if not there:
        raise EnvironmentMissing(f"profile {name} has no generations here", hint=f"envlock sync {name}")
    if wanted is not None:
        found = generations.named(there, wanted)
        if found is None:
            raise UsageError(
                f"profile {name} has no generation {wanted!r}", found=", ".join(there), hint=f"envlock history {name}"
            )
        return found
    earlier = generations.before(there, generations.current(environments))
    if earlier is None:
        raise UsageError(
            f"there is no generation of {name} before the current one",
            found=f"only {', '.join(there)}",
            hint=f"envlock history {name}",
        )
    return earlier


def back(
    environments: str, name: str, wanted: str | None, *, project: str, put_back: Callable[[str], str] | None = None
) -> tuple[str | None, str, str]:
    """Make an earlier generation current again; return what was current, what is now, and what became of the lock file.

    `put_back` gets the chosen prefix and restores its lock file; without it the file is left as it is.
    Raises UsageError, EnvironmentMissing; StoreError when the generation is not as it was sealed: nothing is changed.
    """
    with disk.locked(f"{environments}/.building"):
        after = chosen(environments, name, wanted)
        prefix = f"{environments}/{after}"
        digest = _whole(prefix, after, name)
        before = generations.current(environments)
        lock = put_back(prefix) if put_back is not None else _left_alone(project, name, digest)
        disk.point(f"{environments}/current", after)
        event = {
            "event": "rolled-back",
            "generation": after,
            "before": before,
            "lock_digest": digest,
            "time": origin.now(),
            **origin.of(project),
        }
        disk.append_line(f"{environments}/history.jsonl", generations.line(event))
    return before, after, lock


def _left_alone(project: str, name: str, digest: str) -> str:
    """Return what is said of a lock file that nobody asked to put back."""
    try:
        with open(f"{project}/locks/{name}.toml", "rb") as file:
            same = canonical.sha256(file.read()) == digest
    except OSError:
        same = False
    return "unchanged" if same else "left as it is"


def _whole(prefix: str, generation: str, name: str) -> str:
    """Return the digest of the lock a generation was built from, having compared its place and its vital files.

    What is compared is what the next launch compares first (environment/stamp.py): nobody goes back to what would
    not start. Raises StoreError.
    """
    try:
        with open(f"{prefix}/seal/lock.toml", "rb") as file:
            digest = canonical.sha256(file.read())
        with open(f"{prefix}/seal/guard", encoding="utf-8", errors="surrogateescape") as file:
            known = dict(line.rstrip("\n").split(" ", 1) for line in file)
        built_at = known["prefix"]
        moved = built_at != prefix and not os.path.samefile(built_at, prefix)
        wrong = built_at if moved else stamp.differing(prefix)
    except (OSError, ValueError, KeyError) as error:
        wrong = str(error)
    if wrong is not None:
        raise StoreError(
            f"generation {generation} is not as it was sealed",
            where=prefix,
            found=wrong,
            hint=f"choose another (envlock history {name}), or take its lock and build again: "
            f"cp {prefix}/seal/lock.toml locks/{name}.toml && envlock sync {name}",
        )
    return digest


def told(name: str, before: str | None, after: str, lock: str) -> list[str]:
    """Return what is said of a rollback, line by line; the first one begins with the name."""
    first = f"{name}: {before or 'nothing'} -> {after}; lock file {lock}"
    if lock != "left as it is":
        return [first]
    advice = f"`envlock rollback --lock {name} {after}`"
    return [first, f"  launches refuse until lock and environment agree; {advice}"]
