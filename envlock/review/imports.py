"""Locks of other tools as pins: uv.lock, PEP 751 pylock, hashed requirements. Pure: text in, values out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envlock.errors import Fault, FileError
from envlock.review.adoption import Installed

_NOT_HERE = ("-r", "--requirement", "-e", "--editable")
"""Options of a requirements file that bring in what the file itself does not hold; the others tell where to look."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """What another tool's lock holds."""

    packages: tuple[Installed, ...]
    hashes: Mapping[str, frozenset[str]]
    """Name -> every sha256 the file allows; empty where it gives none."""


def read(file: str, text: str, target: Mapping[str, str]) -> Pinned:
    """Return the pins of a lock, told by its name and content, that hold on a target (PEP 508 environment markers).

    Raises FileError when it is none of the three kinds.
    """
    if file.endswith(".txt"):
        return _requirements(file, text, target)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(
            file, [Fault("", f"not TOML: {error}")], hint="uv.lock, pylock.toml or requirements.txt"
        ) from error
    try:
        if "lock-version" in data:
            return _pylock(data, target)
        if "package" in data and "version" in data:
            return _uv_lock(data, target)
    except (KeyError, TypeError, AttributeError, InvalidMarker) as error:
        raise FileError(file, [Fault("", f"not as its kind is written: {error!r}")]) from error
    raise FileError(
        file, [Fault("", "neither uv.lock nor pylock.toml")], hint="uv.lock, pylock.toml or requirements.txt"
    )


def _holds(marker: str | None, target: Mapping[str, str]) -> bool:
    """Tell whether a marker holds where nobody asks for an extra or a group (PEP 508, and PEP 751's two more names)."""
    if not marker:
        return True
    empty: dict[str, str | frozenset[str]] = {"extra": "", "extras": frozenset(), "dependency_groups": frozenset()}
    return Marker(marker).evaluate({**target, **empty}, context="lock_file")


def _name(name: str) -> str:
    return str(canonicalize_name(name))


def _one(
    name: str,
    version: str,
    *,
    requested: bool,
    requires: tuple[str, ...] = (),
    origin: str = "",
    extras: Iterable[str] = (),
) -> Installed:
    return Installed(
        name=_name(name),
        version=version,
        requested=requested,
        requires=requires,
        origin=origin,
        extras=tuple(sorted(extras)),
    )


def _uv_lock(data: Mapping[str, Any], target: Mapping[str, str]) -> Pinned:
    """Return the pins of a uv.lock that its projects reach on the target.

    A project is a package in a folder; what it names was asked for. Its dependency groups are for who works on it.
    """
    packages = [item for item in data["package"] if _forked_here(item, target)]
    projects = [item for item in packages if {"virtual", "editable"} & set(item.get("source", {}))]
    asked: dict[str, set[str]] = {}
    for project in projects:
        for one in _dependencies(project, (), target):
            asked.setdefault(_name(one["name"]), set()).update(one.get("extra", ()))
    reached = _reached(packages, asked, target) if projects else {_name(p["name"]): p for p in packages}
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    for name, item in sorted(reached.items()):
        if item in projects:
            continue
        requires = tuple(_name(one["name"]) for one in _dependencies(item, asked.get(name, ()), target))
        source = item.get("source", {})
        origin = next((f"{kind} {source[kind]}" for kind in ("git", "url", "path", "directory") if kind in source), "")
        found.append(
            _one(
                name,
                item.get("version", ""),
                requested=name in asked or not projects,
                requires=requires,
                origin=f"comes from {origin}" if origin else "",
                extras=asked.get(name, ()),
            )
        )
        files = [*item.get("wheels", ()), *([item["sdist"]] if "sdist" in item else [])]
        hashes[name] = frozenset(str(one.get("hash", "")).removeprefix("sha256:") for one in files) - {""}
    return Pinned(packages=tuple(found), hashes=hashes)


def _forked_here(item: Mapping[str, Any], target: Mapping[str, str]) -> bool:
    """Tell whether the target is among those a package was resolved for; uv locks some of them several times."""
    markers = item.get("resolution-markers")
    return not markers or any(_holds(marker, target) for marker in markers)


def _dependencies(
    item: Mapping[str, Any], extras: Iterable[str], target: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    optional = item.get("optional-dependencies", {})
    for one in (*item.get("dependencies", ()), *(one for extra in extras for one in optional.get(extra, ()))):
        if _holds(one.get("marker"), target):
            yield one


def _reached(
    packages: Sequence[Mapping[str, Any]], asked: Mapping[str, set[str]], target: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for item in packages:
        by_name.setdefault(_name(item["name"]), []).append(item)
    reached: dict[str, Mapping[str, Any]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    todo: list[tuple[str, str | None, tuple[str, ...]]] = [(name, None, tuple(asked[name])) for name in asked]
    while todo:
        name, version, extras = todo.pop()
        fitting = [item for item in by_name.get(name, ()) if version in (None, item.get("version"))]
        if not fitting or (name, extras) in seen:
            continue
        seen.add((name, extras))
        reached[name] = fitting[0]
        for one in _dependencies(fitting[0], extras, target):
            todo.append((_name(one["name"]), one.get("version"), tuple(one.get("extra", ()))))
    return reached


def _pylock(data: Mapping[str, Any], target: Mapping[str, str]) -> Pinned:
    """Return the pins of a pylock that hold on the target; it does not tell what was asked for, so all of them were."""
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    for item in data.get("packages", ()):
        if not _holds(item.get("marker"), target):
            continue
        origin = next((f"comes from its {kind}" for kind in ("vcs", "directory", "archive") if kind in item), "")
        found.append(_one(item["name"], item.get("version", ""), requested=True, origin=origin))
        files = [*item.get("wheels", ()), *([item["sdist"]] if "sdist" in item else [])]
        hashes[found[-1].name] = frozenset(str(one.get("hashes", {}).get("sha256", "")) for one in files) - {""}
    return Pinned(packages=tuple(found), hashes=hashes)


def _requirements(file: str, text: str, target: Mapping[str, str]) -> Pinned:
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    faults: list[Fault] = []
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        words = line.split(" #")[0].strip()
        if words.startswith(_NOT_HERE):
            faults.append(Fault(words[:60], "what it names is not in this file"))
        if not words or words.startswith(("#", "-")):
            continue
        told = words.split(" --hash=")[0].strip()
        try:
            wanted = Requirement(told)
        except InvalidRequirement as error:
            faults.append(Fault(told[:60], f"no requirement: {str(error).splitlines()[0]}"))
            continue
        if wanted.marker is not None and not _holds(str(wanted.marker), target):
            continue
        exact = [spec.version for spec in wanted.specifier if spec.operator == "=="]
        if not exact and wanted.url is None:
            faults.append(Fault(wanted.name, "is not pinned to one version (==)"))
            continue
        found.append(
            _one(
                wanted.name,
                exact[0] if exact else "",
                requested=True,
                origin=f"comes from {wanted.url}" if wanted.url else "",
                extras=wanted.extras,
            )
        )
        hashes[found[-1].name] = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", words))
    if faults:
        raise FileError(file, faults, hint="export it with every package pinned: uv pip compile --generate-hashes")
    return Pinned(packages=tuple(found), hashes=hashes)
