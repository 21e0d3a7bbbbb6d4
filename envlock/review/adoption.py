"""What a hand-made environment holds, and the profile that would rebuild it. Pure: facts in, text and words out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from envlock.lock import toml_text

_PYTORCH_BUILD = re.compile(r"cu[0-9]{2,3}|cpu|xpu|rocm[0-9.]+")  # folders of PyTorch's wheel index
SEEDS = frozenset({"pip", "setuptools", "wheel"})
"""What `venv` and `virtualenv` put there by themselves; left out unless something requires it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """One distribution found in an environment."""

    name: str
    version: str
    requested: bool
    """Its installer wrote that a person asked for it (the REQUESTED file)."""
    requires: tuple[str, ...]
    """Normalised names it depends on, whatever their markers."""
    origin: str = ""
    """Why it cannot be in a lock: an editable or local source, by direct_url.json, or old metadata."""
    extras: tuple[str, ...] = ()
    """Extras that were asked for; an environment does not tell, a lock may."""
    url: str = ""
    """Its direct reference, pinned to bytes (PEP 610): `git+URL@COMMIT`, `URL#sha256=...`; empty from an index."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Adopted:
    """What was understood of an environment."""

    python: str
    torch: tuple[str, str | None] | None
    """Distribution version and CUDA."""
    direct: tuple[Installed, ...]
    dependencies: tuple[Installed, ...]
    left_out: Mapping[str, str]
    """Name -> why it cannot be in a lock."""
    indexes: Mapping[str, tuple[str, ...]]
    """PyTorch build (`cu128`, `cpu`) -> what came from PyTorch's own index of it, told by the local version."""


def understand(python: str, torch: tuple[str, str | None] | None, found: Sequence[Installed]) -> Adopted:
    """Tell what was asked for from what came along.

    The REQUESTED marker decides; where no installer wrote any, the roots of the dependency graph do.
    """
    left_out = {one.name: one.origin for one in found if one.origin}
    builds: dict[str, list[str]] = {}
    for one in found:
        local = one.version.partition("+")[2]
        if _PYTORCH_BUILD.fullmatch(local):
            builds.setdefault(local, []).append(one.name)
        elif local and not one.url:
            left_out.setdefault(one.name, f"is a build of its own, {one.version}, that no public index serves")
    needed = {name for one in found for name in one.requires}
    there = [one for one in found if one.name not in left_out and (one.name not in SEEDS or one.name in needed)]
    marked = [one for one in there if one.requested and one.name not in SEEDS]
    roots = [one for one in there if one.name not in needed]
    direct = marked or roots
    reached = _closure(direct, there)
    direct += [one for one in there if one.name not in reached and one not in direct]
    names = {one.name for one in direct}
    return Adopted(
        python=python,
        torch=torch,
        direct=tuple(direct),
        dependencies=tuple(one for one in there if one.name not in names),
        left_out=left_out,
        indexes={build: tuple(names) for build, names in sorted(builds.items())},
    )


def _closure(start: Sequence[Installed], there: Sequence[Installed]) -> set[str]:
    by_name = {one.name: one for one in there}
    reached: set[str] = set()
    todo = [one.name for one in start]
    while todo:
        name = todo.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            todo += by_name[name].requires
    return reached


def profile_text(adopted: Adopted, source: str) -> str:
    """Return the profile: what was asked for as requirements, everything else held by constraints."""
    parts = [
        f"# Adopted from {source}: the versions are those that were installed. Loosen what need not be exact.\n",
        toml_text.pair("description", "Adopted from an environment made by hand"),
        toml_text.pair("python", adopted.python),
    ]
    direct = [one for one in adopted.direct if one.name != "torch" or adopted.torch is None]
    parts.append(toml_text.pair("requirements", [_line(one) for one in direct]))
    held = [one for one in adopted.dependencies if one.name != "torch" or adopted.torch is None]
    overrides = [_line(one) for one in held if one.url]
    held = [one for one in held if not one.url]
    if overrides:
        parts.append(toml_text.pair("overrides", overrides))
    if held:
        parts.append(toml_text.pair("constraints", [f"{one.name}=={one.version}" for one in held]))
    early = sorted(one.name for one in (*direct, *held) if _is_prerelease(one.version))
    if early:
        parts.append(toml_text.pair("prerelease", early))
    if adopted.torch is not None:
        version, cuda = adopted.torch
        index = index_name(version.partition("+")[2]) if "torch" in sum(adopted.indexes.values(), ()) else None
        parts.append(toml_text.table(["torch"], {"version": version, "cuda": cuda or "cpu", "index": index}))
    for build, names in adopted.indexes.items():
        table = {"name": index_name(build), "url": f"https://download.pytorch.org/whl/{build}", "only": list(names)}
        parts.append("\n[[index]]\n" + "".join(toml_text.pair(key, value) for key, value in table.items()))
    return "".join(parts)


def index_name(build: str) -> str:
    """Return what a profile calls PyTorch's index of one build."""
    return f"pytorch-{build.replace('.', '-')}"


def _line(one: Installed) -> str:
    extras = f"[{','.join(one.extras)}]" if one.extras else ""
    return f"{one.name} @ {one.url}" if one.url else f"{one.name}{extras}=={one.version}"


def _is_prerelease(version: str) -> bool:
    try:
        return Version(version).is_prerelease
    except InvalidVersion:
        return False
