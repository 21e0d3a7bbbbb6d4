"""Who recorded which file: every RECORD of a site-packages folder, read fast. Effects: reads RECORD and METADATA."""

from __future__ import annotations

import csv
import os
import re
from typing import NamedTuple

from packaging.utils import canonicalize_name

from envlock.environment.digests import read_regular
from envlock.verify.facts import Claim, Installed

_TORCH = re.compile(r"Requires-Dist: torch(?![\w.-])\s*\(?([^;)]*)")


class Records(NamedTuple):
    """What the distributions of a site-packages folder say of themselves."""

    installed: tuple[Installed, ...]
    owners: dict[str, str]
    """Path below site-packages -> the distribution that recorded it (the last of several)."""
    claims: tuple[Claim, ...]


def read_records(site: str) -> Records:
    """Return the distributions of a folder and what they recorded; unreadable records are as good as none."""
    installed: list[Installed] = []
    owners: dict[str, str] = {}
    digests: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    names = sorted(os.listdir(site))
    for folder in (name for name in names if name.endswith(".dist-info")):
        stem = folder.removesuffix(".dist-info")
        name, _, version = stem.rpartition("-")
        package = canonicalize_name(name or stem)
        lines = _lines(f"{site}/{folder}/RECORD")
        told = _metadata(f"{site}/{folder}/METADATA")
        installed.append(Installed(package, version, folder, *told, _unchecked(folder, lines)))
        for path, digest in lines or ():
            before = digests.get(path)
            if before is None:
                digests[path] = digest
            elif before != digest and digest and not path.endswith(".pyc"):
                several.setdefault(path, [owners[path]]).append(package)
            owners[path] = package
    installed += [_old_style(name) for name in names if name.endswith(".egg-info")]
    claims = tuple(Claim(path, tuple(dict.fromkeys(packages))) for path, packages in sorted(several.items()))
    return Records(tuple(installed), owners, claims)


def _old_style(entry: str) -> Installed:
    """Return what metadata from before PEP 376 (`name-1.0-py3.11.egg-info`) says by its name; it lists no hashes."""
    name, _, rest = entry.removesuffix(".egg-info").partition("-")
    package, version = canonicalize_name(name), rest.partition("-")[0]
    return Installed(package, version, entry, "", package, version or "0", "old metadata, without hashes")


def _lines(path: str) -> list[tuple[str, str]] | None:
    """Return (path, digest) of a RECORD, or None where there is none that can be read."""
    try:
        text = read_regular(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    lines = []
    for line in text.splitlines():
        parts = next(csv.reader([line]), []) if line.startswith('"') else line.rsplit(",", 2)
        if len(parts) == 3:
            lines.append((parts[0], parts[1]))
    return lines


def _unchecked(folder: str, lines: list[tuple[str, str]] | None) -> str:
    """Return why a distribution's files cannot be held against its RECORD, or nothing when they can.

    RECORD itself and its signature have no hash, nor has byte code, which an installer may list.
    """
    if lines is None:
        return "no RECORD"
    files = [digest for path, digest in lines if not path.startswith(f"{folder}/RECORD") and not path.endswith(".pyc")]
    bare = sum(1 for digest in files if not digest)
    if bare:
        return "no hash in its RECORD" if bare == len(files) else f"{bare} of {len(files)} files without a hash"
    return "" if files else "an empty RECORD"


def _metadata(path: str) -> tuple[str, str, str]:
    """Return (torch requirement, name, version) of a METADATA file, each empty where it does not say."""
    try:
        head = read_regular(path, 65536).decode("utf-8", "replace").split("\n\n", 1)[0]
    except OSError:
        return "", "", ""
    torch = name = version = ""
    for line in head.split("\n"):
        if line.startswith("Name:"):
            name = canonicalize_name(line[5:].strip())
        elif line.startswith("Version:"):
            version = line[8:].strip()
        elif not torch and (found := _TORCH.match(line)) and "extra ==" not in line:
            torch = found[1].strip()
    return torch, name, version
