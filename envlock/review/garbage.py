"""What may be removed, and what that really frees. The decision is pure; the figures come from the file system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A generation that stays, and why."""

    generation: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is removed and what stays of one profile."""

    remove: tuple[str, ...]
    kept: tuple[Kept, ...]


def choose(
    generations: Sequence[str],
    *,
    current: str | None,
    pinned: Iterable[str],
    in_use: Mapping[str, str],
    keep: int,
) -> Choice:
    """Return what goes: everything but the current, the pinned, the newest `keep`, and what a process uses."""
    newest = list(generations)[-keep:] if keep else []
    held = set(pinned)
    kept: list[Kept] = []
    remove: list[str] = []
    for generation in generations:
        if generation == current:
            kept.append(Kept(generation=generation, reason="current"))
        elif generation in held:
            kept.append(Kept(generation=generation, reason="pinned"))
        elif generation in in_use:
            kept.append(Kept(generation=generation, reason=in_use[generation]))
        elif generation in newest:
            kept.append(Kept(generation=generation, reason="recent"))
        else:
            remove.append(generation)
    return Choice(remove=tuple(remove), kept=tuple(kept))


def freed(links: Mapping[tuple[int, int], tuple[int, int, int]]) -> int:
    """Return the bytes that vanish: of (device, inode) -> (links inside, links in all, bytes on disk).

    An inode that has a name outside what is removed frees nothing.
    """
    return sum(size for inside, total, size in links.values() if inside >= total)
