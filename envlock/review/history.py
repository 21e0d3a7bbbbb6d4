"""A profile's journal as rows for people: which generations there were, since when, from what, used how often. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One generation."""

    generation: str
    current: bool
    pinned: bool
    time: str
    """When it was synced first, UTC."""
    lock_digest: str
    commit: str
    user: str
    change: str
    """One line against the generation before it."""
    launches: int
    last_use: str
    """Time of the last launch, or empty."""
    present: bool
    """It is still on disk."""


def rows(
    events: Sequence[Mapping[str, Any]],
    launches: Sequence[Mapping[str, Any]],
    *,
    present: Sequence[str],
    current: str | None,
    changes: Mapping[str, str],
) -> tuple[Row, ...]:
    """Return one row a generation, oldest first. `changes` holds the line that tells each from the one before."""
    first: dict[str, Mapping[str, Any]] = {}
    for event in events:
        generation = event.get("generation")
        if event.get("event") == "synced" and isinstance(generation, str):
            first.setdefault(generation, event)
    for generation in present:
        first.setdefault(generation, {})
    held = pins(events)
    used: dict[str, list[str]] = {}
    for launch in launches:
        used.setdefault(str(launch.get("generation")), []).append(str(launch.get("time", "")))
    return tuple(
        Row(
            generation=generation,
            current=generation == current,
            pinned=generation in held,
            time=str(event.get("time", "")),
            lock_digest=str(event.get("lock_digest", "")),
            commit=str(event.get("commit", "")),
            user=str(event.get("user", "")),
            change=changes.get(generation, ""),
            launches=len(used.get(generation, ())),
            last_use=max(used.get(generation, [""])),
            present=generation in present,
        )
        for generation, event in sorted(first.items())
    )


def pins(events: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the generations that are pinned now: the last word about each counts."""
    held: dict[str, bool] = {}
    for event in events:
        if event.get("event") in ("pinned", "unpinned"):
            held[str(event.get("generation"))] = event["event"] == "pinned"
    return frozenset(generation for generation, pinned in held.items() if pinned)
