"""Locks of other tools as pins: uv.lock, PEP 751 pylock, hashed requirements. Pure: text in, values out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envlock.errors import Fault, FileError
from envlock.review.adoption import Installed


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """What another tool's lock holds."""

    packages: tuple[Installed, ...]
    hashes: Mapping[str, frozenset[str]]
    """Name -> every sha256 the file allows; empty where it gives none."""


def read(file: str, text: str) -> Pinned:
    """Return the pins of a lock, told by its name and content. Raises FileError when it is none of the three kinds."""
    if file.endswith(".txt"):
        return _requirements(file, text)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(
            file, [Fault("", f"not TOML: {error}")], hint="uv.lock, pylock.toml or requirements.txt"
        ) from error
    if "lock-version" in data:
        return _pylock(data)
    if "package" in data and "version" in data:
        return _uv_lock(data)
    raise FileError(
        file, [Fault("", "neither uv.lock nor pylock.toml")], hint="uv.lock, pylock.toml or requirements.txt"
    )


def _one(name: str, version: str, *, requested: bool, requires: tuple[str, ...] = (), origin: str = "") -> Installed:
    return Installed(
        name=str(canonicalize_name(name)), version=version, requested=requested, requires=requires, origin=origin
    )


def _uv_lock(data: Mapping[str, Any]) -> Pinned:
    """Return the pins of a uv.lock: the project is a package in a folder, and what it names was asked for."""
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    packages = data["package"]
    projects = [item for item in packages if {"virtual", "editable"} & set(item.get("source", {}))]
    asked = {dependency["name"] for item in projects for dependency in item.get("dependencies", ())}
    for item in packages:
        if item in projects:
            continue
        requires = tuple(str(canonicalize_name(one["name"])) for one in item.get("dependencies", ()))
        source = item.get("source", {})
        origin = next((f"{kind} {source[kind]}" for kind in ("git", "url", "path", "directory") if kind in source), "")
        found.append(
            _one(item["name"], item["version"], requested=item["name"] in asked, requires=requires, origin=origin)
        )
        files = [*item.get("wheels", ()), *([item["sdist"]] if "sdist" in item else [])]
        hashes[found[-1].name] = frozenset(str(one.get("hash", "")).removeprefix("sha256:") for one in files) - {""}
    return Pinned(packages=tuple(found), hashes=hashes)


def _pylock(data: Mapping[str, Any]) -> Pinned:
    """Return the pins of a pylock, which does not tell what was asked for: every package counts as asked for."""
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    for item in data.get("packages", ()):
        origin = next((kind for kind in ("vcs", "directory", "archive") if kind in item), "")
        found.append(_one(item["name"], item.get("version", ""), requested=True, origin=origin))
        files = [*item.get("wheels", ()), *([item["sdist"]] if "sdist" in item else [])]
        hashes[found[-1].name] = frozenset(str(one.get("hashes", {}).get("sha256", "")) for one in files) - {""}
    return Pinned(packages=tuple(found), hashes=hashes)


def _requirements(file: str, text: str) -> Pinned:
    found: list[Installed] = []
    hashes: dict[str, frozenset[str]] = {}
    faults: list[Fault] = []
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        words = line.split(" #")[0].strip()
        if not words or words.startswith(("#", "-")):
            continue
        told = words.split(" --hash=")[0].strip()
        try:
            wanted = Requirement(told)
        except InvalidRequirement as error:
            faults.append(Fault(told[:60], f"no requirement: {str(error).splitlines()[0]}"))
            continue
        exact = [spec.version for spec in wanted.specifier if spec.operator == "=="]
        if not exact and wanted.url is None:
            faults.append(Fault(wanted.name, "is not pinned to one version (==)"))
            continue
        found.append(_one(wanted.name, exact[0] if exact else "", requested=True, origin=wanted.url or ""))
        hashes[found[-1].name] = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", words))
    if faults:
        raise FileError(file, faults, hint="export it with every package pinned: uv pip compile --generate-hashes")
    return Pinned(packages=tuple(found), hashes=hashes)
