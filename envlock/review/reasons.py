"""Why a package is in a lock: every way from the profile's own lines to it. Pure, and builtins only.

`envlock why` answers before anything comfortable is imported; so this works on the plain tables of a lock
(`lock.canonical.read`) as well as on a Lock.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Self

    from envlock.lock.document import Lock

_MOST = 200
"""Paths shown at most: a package deep in a large stack is reached in thousands of ways, and nobody reads those."""


class Graph:
    """Who requires what: the part of a lock that reasons are made of."""

    __slots__ = ("indexes", "inputs", "requires", "versions")

    def __init__(self, inputs: Mapping[str, object]) -> None:
        self.inputs = inputs
        self.versions: dict[str, str] = {}
        self.indexes: dict[str, str] = {}
        self.requires: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, lock: Lock) -> Self:
        """Return the graph of a lock."""
        graph = cls(lock.inputs)
        for package in lock.packages:
            graph._add(package.name, package.version, package.index, package.requires)
        return graph

    @classmethod
    def of_tables(cls, data: Mapping[str, Any]) -> Self:
        """Return the graph of a lock's tables. Raises KeyError when they are not a lock's."""
        graph = cls(data.get("inputs", {}))
        for item in data.get("package", ()):
            graph._add(item["name"], item["version"], item.get("index", ""), tuple(item.get("requires", ())))
        return graph

    def _add(self, name: str, version: str, index: str, requires: tuple[str, ...]) -> None:
        self.versions[name] = version
        self.indexes[name] = index
        self.requires[name] = requires


def normalised(name: str) -> str:
    """Return a distribution's name as locks write it (PEP 503)."""
    text = name.lower().replace("_", "-").replace(".", "-")
    while "--" in text:
        text = text.replace("--", "-")
    return text


def roots(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return name -> the profile's own lines that ask for it."""
    found: dict[str, tuple[str, ...]] = {}
    lines = graph.inputs.get("requirements", ())
    for line in lines if isinstance(lines, (list, tuple)) else ():
        name = normalised(name_of(str(line)))
        found[name] = (*found.get(name, ()), f"requirements: {line}")
    torch = graph.inputs.get("torch")
    if isinstance(torch, dict):
        found["torch"] = (*found.get("torch", ()), f"[torch] version = {torch.get('version')!r}")
    return found


def requirers(graph: Graph) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return name -> ((who, requirement), ...) for every edge of a lock."""
    found: dict[str, list[tuple[str, str]]] = {}
    for who, lines in graph.requires.items():
        for line in lines:
            found.setdefault(name_of(line), []).append((who, line))
    return {name: tuple(sorted(edges)) for name, edges in found.items()}


def name_of(requirement: str) -> str:
    """Return the name a lock's requirement begins with (written normalised, so no parser is needed)."""
    for position, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "-_."):
            return requirement[:position]
    return requirement


def paths(graph: Graph, name: str) -> Iterator[tuple[str, ...]]:
    """Yield every way to a package, the shortest first: the profile's line, then `who requires what` step by step."""
    edges, tops = requirers(graph), roots(graph)
    level: list[tuple[str, tuple[str, ...]]] = [(name, ())]
    shown = 0
    while level and shown < _MOST:
        deeper: list[tuple[str, tuple[str, ...]]] = []
        for here, steps in level:
            for line in tops.get(here, ()):
                yield (line, *steps)
                shown += 1
            for who, requirement in edges.get(here, ()):
                step = f"{who} {graph.versions[who]} requires {requirement}"
                if step not in steps:
                    deeper.append((who, (step, *steps)))
        level = deeper[: _MOST * 4]


def holds(graph: Graph, name: str) -> tuple[str, ...]:
    """Return who restricts a package's version, strictest-looking first: exact pins, then bounds."""
    asked = [f"{who} {graph.versions[who]} requires {line}" for who, line in requirers(graph).get(name, ())]
    asked += [f"the profile: {line}" for line in roots(graph).get(name, ())]
    return tuple(sorted(asked, key=lambda line: ("==" not in line, "<" not in line, line)))


def moved(before: Graph, after: Graph, name: str) -> tuple[str, ...]:
    """Return the requirements on a package that are new on the later side: what may have moved it."""
    old = set(holds(before, name))
    return tuple(line for line in holds(after, name) if line not in old)


def tree(graph: Graph, *, depth: int, inverted: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (depth, line) of the dependency tree, or of what leads to `inverted`; a package is unfolded once."""
    edges = requirers(graph)
    seen: set[str] = set()

    def below(name: str, level: int, asked: str) -> Iterator[tuple[int, str]]:
        if name not in graph.versions:
            return
        again = name in seen
        children = edges.get(name, ()) if inverted else tuple((name_of(line), line) for line in graph.requires[name])
        marker = " (above)" if again and children else ""
        yield level, f"{name} {graph.versions[name]}{f'  ({asked})' if asked else ''}{marker}"
        if again or level >= depth:
            return
        seen.add(name)
        for child, line in children:
            yield from below(child, level + 1, line)

    for name in (inverted,) if inverted else sorted(roots(graph)):
        yield from below(name, 0, "")


def told(graph: Graph, name: str, *, most: int) -> Iterator[str]:
    """Yield what `envlock why` says, line by line, the first one to stand out."""
    yield f"{name} {graph.versions[name]}"
    for number, path in enumerate(paths(graph, name)):
        if number == most:
            yield f"  ... and more ways (--most {most * 2})"
            break
        for level, step in enumerate(path):
            yield f"  {'   ' * level}{step}"
    yield "held by:"
    for line in holds(graph, name)[:8]:
        yield f"  {line}"


def from_where(graph: Graph, name: str) -> str:
    """Return what follows a package's name and version: the index it comes from."""
    return f", from index {graph.indexes[name] or 'none'}"
