"""Why a package is in a lock: every way from the profile's own lines to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envlock.lock.document import Lock

_MOST = 200
"""Paths shown at most: a package deep in a large stack is reached in thousands of ways, and nobody reads those."""


def roots(lock: Lock) -> dict[str, tuple[str, ...]]:
    """Return name -> the profile's own lines that ask for it."""
    found: dict[str, tuple[str, ...]] = {}
    lines = lock.inputs.get("requirements", ())
    for line in lines if isinstance(lines, (list, tuple)) else ():
        name = re.sub(r"[-_.]+", "-", name_of(str(line))).lower()  # PEP 503
        found[name] = (*found.get(name, ()), f"requirements: {line}")
    torch = lock.inputs.get("torch")
    if isinstance(torch, dict):
        found["torch"] = (*found.get("torch", ()), f"[torch] version = {torch.get('version')!r}")
    return found


def requirers(lock: Lock) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return name -> ((who, requirement), ...) for every edge of a lock."""
    found: dict[str, list[tuple[str, str]]] = {}
    for package in lock.packages:
        for line in package.requires:
            found.setdefault(name_of(line), []).append((package.name, line))
    return {name: tuple(sorted(edges)) for name, edges in found.items()}


def name_of(requirement: str) -> str:
    """Return the name a lock's requirement begins with (written normalised, so no parser is needed)."""
    for position, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "-_."):
            return requirement[:position]
    return requirement


def paths(lock: Lock, name: str) -> Iterator[tuple[str, ...]]:
    """Yield every way to a package, the shortest first: the profile's line, then `who requires what` step by step."""
    edges, tops = requirers(lock), roots(lock)
    level: list[tuple[str, tuple[str, ...]]] = [(name, ())]
    shown = 0
    while level and shown < _MOST:
        deeper: list[tuple[str, tuple[str, ...]]] = []
        for here, steps in level:
            for line in tops.get(here, ()):
                yield (line, *steps)
                shown += 1
            for who, requirement in edges.get(here, ()):
                version = lock.by_name[who].version
                step = f"{who} {version} requires {requirement}"
                if step not in steps:
                    deeper.append((who, (step, *steps)))
        level = deeper[: _MOST * 4]


def holds(lock: Lock, name: str) -> tuple[str, ...]:
    """Return who restricts a package's version, strictest-looking first: exact pins, then bounds."""
    asked = [f"{who} {lock.by_name[who].version} requires {line}" for who, line in requirers(lock).get(name, ())]
    asked += [f"the profile: {line}" for line in roots(lock).get(name, ())]
    return tuple(sorted(asked, key=lambda line: ("==" not in line, "<" not in line, line)))


def moved(before: Lock, after: Lock, name: str) -> tuple[str, ...]:
    """Return the requirements on a package that are new on the later side: what may have moved it."""
    old = set(holds(before, name))
    return tuple(line for line in holds(after, name) if line not in old)


def tree(lock: Lock, *, depth: int, inverted: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (depth, line) of the dependency tree, or of what leads to `inverted`; a package is unfolded once."""
    edges = requirers(lock)
    seen: set[str] = set()

    def below(name: str, level: int, asked: str) -> Iterator[tuple[int, str]]:
        package = lock.by_name.get(name)
        if package is None:
            return
        again = name in seen
        children = edges.get(name, ()) if inverted else tuple((name_of(line), line) for line in package.requires)
        marker = " (above)" if again and children else ""
        yield level, f"{name} {package.version}{f'  ({asked})' if asked else ''}{marker}"
        if again or level >= depth:
            return
        seen.add(name)
        for child, line in children:
            yield from below(child, level + 1, line)

    for name in (inverted,) if inverted else sorted(roots(lock)):
        yield from below(name, 0, "")
