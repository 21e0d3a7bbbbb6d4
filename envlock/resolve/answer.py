"""What uv answered, as values: versions with their origin and who asked, and the files that may be installed. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envlock.lock.document import Artifact, Direct
from envlock.resolve.request import PROJECT

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==(\S+)")
_DIRECT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])? @ (\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """One package of the answer."""

    name: str
    version: str
    """Empty for a direct reference: its version is known from its metadata."""
    source: str
    """URL of the index it came from, as uv writes it; empty when uv does not say."""
    asked_by: tuple[str, ...]
    """Names of the packages that require it; empty when only the profile does."""


def read_pins(text: str) -> dict[str, Pinned]:
    """Return the packages of `uv pip compile` output with `# via` and `# from` annotations."""
    pins: dict[str, Pinned] = {}
    name = version = source = ""
    via: list[str] = []
    in_via = False

    def close() -> None:
        if name:
            asked = tuple(who for who in via if not who.startswith((PROJECT, "-r ", "-c ", "--")))
            pins[name] = Pinned(name=name, version=version, source=source, asked_by=asked)

    for line in text.splitlines():
        match = _PIN.match(line) or _DIRECT.match(line)
        if match:
            close()
            name, version, source, via, in_via = match[1], match[2], "", [], False
            if _DIRECT.match(line):
                version = ""
            continue
        words = line.strip()
        if not words.startswith("#"):
            continue
        words = words[1:].strip()
        if words.startswith("from "):
            source, in_via = words.removeprefix("from ").strip(), False
        elif words.startswith("via"):
            in_via = True
            rest = words.removeprefix("via").strip()
            via += [rest] if rest else []
        elif in_via:
            via.append(words)
    close()
    return pins


_YANKED = re.compile(
    r"^warning: `([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==[^`]+` is yanked(?: \(reason: \"(.*?)\"\))?$",
    re.MULTILINE | re.DOTALL,
)


def read_yanked(said: str) -> dict[str, str]:
    """Return name -> reason (may be empty) of the packages that uv warned of as yanked."""
    return {match[1]: " ".join((match[2] or "").split()) for match in _YANKED.finditer(said)}


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file the index offers for a package, with where it is now (never written to a lock)."""

    artifact: Artifact
    url: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """What may be installed for a package."""

    name: str
    version: str
    wheels: tuple[File, ...]
    sdist: File | None
    direct: Direct | None


def read_offers(text: str) -> dict[str, Offered]:
    """Return the packages of a PEP 751 document as `uv pip compile --format pylock.toml` writes it."""
    offers: dict[str, Offered] = {}
    for item in tomllib.loads(text).get("packages", ()):
        archive = item.get("archive")
        wheels = [_file(wheel) for wheel in item.get("wheels", ())]
        sdist = _file(item["sdist"]) if "sdist" in item else None
        if archive is not None:
            file = _file(archive)
            if file.artifact.is_wheel:
                wheels = [file]
            else:
                sdist = file
        offers[item["name"]] = Offered(
            name=item["name"],
            version=item.get("version", ""),
            wheels=tuple(wheels),
            sdist=sdist,
            direct=_direct(item),
        )
    return offers


def _file(item: Mapping[str, Any]) -> File:
    url = str(item["url"]) if item.get("url") else Path(str(item["path"])).as_uri() if item.get("path") else ""
    name = item.get("name") or unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return File(
        artifact=Artifact(file=name, size=item.get("size"), sha256=item.get("hashes", {}).get("sha256", "")), url=url
    )


def _direct(item: Mapping[str, Any]) -> Direct | None:
    if "vcs" in item:
        vcs = item["vcs"]
        return Direct(kind="git", location=vcs["url"], revision=vcs["commit-id"], subdirectory=vcs.get("subdirectory"))
    if "archive" in item:
        archive = item["archive"]
        kind = "path" if "path" in archive or str(archive.get("url", "")).startswith("file:") else "url"
        return Direct(
            kind="path" if kind == "path" else "url",
            location=str(archive.get("url") or archive.get("path")),
            subdirectory=archive.get("subdirectory"),
        )
    if "directory" in item:
        return Direct(
            kind="path", location=item["directory"]["path"], subdirectory=item["directory"].get("subdirectory")
        )
    return None
