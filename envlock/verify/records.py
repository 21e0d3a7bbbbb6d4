"""Who recorded which file: every RECORD of a site-packages folder, read fast. Effects: reads RECORD and METADATA."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

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
    for folder in sorted(name for name in os.listdir(site) if name.endswith(".dist-info")):
        stem = folder.removesuffix(".dist-info")
        name, _, version = stem.rpartition("-")
        package = canonicalize_name(name or stem)
        installed.append(Installed(package, version, folder, _torch_requirement(f"{site}/{folder}/METADATA")))
        for path, digest in _lines(f"{site}/{folder}/RECORD"):
            before = digests.get(path)
            if before is None:
                digests[path] = digest
            elif before != digest and digest and not path.endswith(".pyc"):
                several.setdefault(path, [owners[path]]).append(package)
            owners[path] = package
    claims = tuple(Claim(path, tuple(dict.fromkeys(packages))) for path, packages in sorted(several.items()))
    return Records(tuple(installed), owners, claims)


def _lines(path: str) -> Iterator[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return
    for line in text.splitlines():
        if line.startswith('"'):
            row = next(csv.reader([line]), [])
            if len(row) == 3:
                yield row[0], row[1]
        else:
            parts = line.rsplit(",", 2)
            if len(parts) == 3:
                yield parts[0], parts[1]


def _torch_requirement(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(65536).split("\n\n", 1)[0]
    except OSError:
        return ""
    for line in head.split("\n"):
        found = _TORCH.match(line)
        if found and "extra ==" not in line:
            return found[1].strip()
    return ""
