"""What was judged of a part of site-packages, kept for when it lies so again.

A second environment of the same wheels has the same files by hard link: same inodes, sizes and times. Told so by its
records (environment/tree.py), and claimed by the same RECORDs of the same packages, a part is what it was: its lines of
the inventory, the digest and the stamp are the same bytes. They are kept below `cache/parts/`, one file a part, which
can be deleted at any time. Never kept: what is damaged, what has no other name, and `.dist-info` folders, which the
installer writes anew each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from envlock import disk
from envlock.environment import stamp
from envlock.environment.distributions import Distribution
from envlock.environment.records import Recorded, read_record
from envlock.errors import StoreError

_FORMAT = 1
_UNUSED = 30 * 86400
"""Seconds after which a part that no sync has met again is dropped: its files have other inodes by now, or are gone."""


class Part(NamedTuple):
    """One part of a tree, judged."""

    name: str
    """What lies directly in site-packages; empty for what lies outside."""
    order: str
    """Sorts parts so that their files are in the order of their paths."""
    inventory: str
    digest: str
    """What the environment's digest is made of."""
    stamp: stamp.Lines
    counts: dict[str, tuple[int, int]]
    """Package -> (files, bytes)."""
    lost: tuple[tuple[str, str], ...]
    """(package, path below site-packages) of files that another package's lie over, as was declared."""


class Claim(NamedTuple):
    """What one distribution's RECORD says, so far as it can be told without taking it apart."""

    package: str
    digest: str
    """sha256 of the lines that its wheel brought: the same in every environment."""
    parts: frozenset[str]
    """Parts that these lines lie in."""
    own: str
    """The other lines, of scripts and of its `.dist-info`: not the same in every environment."""

    def records(self) -> list[Recorded]:
        """Return the lines of `own`."""
        return read_record(self.own)


def claim(distribution: Distribution) -> Claim:
    """Return what a distribution lays claim to."""
    own: list[str] = []
    wheel: list[str] = []
    parts: set[str] = set()
    known = ""
    ours = f"{distribution.folder}/"
    for line in (distribution.record or "").split("\n"):
        if known and line.startswith(known):
            wheel.append(line)
        elif line.startswith((ours, "..", '"..')):
            own.append(line)
        elif line:
            wheel.append(line)
            path = read_record(line)
            top, slash, _ = (path[0].path if path else line).partition("/")
            parts.add(top)
            known = f"{top}/" if slash else ""  # lines of one folder follow each other
    digest = hashlib.sha256("\n".join(wheel).encode("utf-8", "surrogateescape")).hexdigest()
    return Claim(distribution.name, digest, frozenset(parts), "\n".join(own))


def claims(distributions: Iterable[Distribution]) -> dict[str, Claim]:
    """Return metadata folder -> what its distribution lays claim to."""
    return {one.folder: claim(one) for one in distributions}


class PartMemory:
    """Parts by key, in files."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / "parts"

    def get(self, key: str) -> Part | None:
        """Return what is kept under a key, or None."""
        try:
            kept = marshal.loads(self._file(key).read_bytes())  # noqa: S302 - written by envlock, under its own store
            os.utime(self._file(key))  # it is in use
            return Part(*kept)
        except (OSError, ValueError, EOFError, TypeError):
            return None

    def put(self, key: str, part: Part) -> None:
        """Keep a part; a cache that cannot be written is left as it is."""
        with contextlib.suppress(StoreError, OSError):
            disk.write_atomically(self._file(key), marshal.dumps(tuple(part), 4))

    def drop_unused(self) -> None:
        """Remove what no sync has met for a month."""
        before = time.time() - _UNUSED
        for file in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / key


def key(
    part: str, records: str, claims: Iterable[Claim], overlaps: Mapping[str, tuple[str, ...]], *, site: str, device: int
) -> str:
    """Return what a part is kept under: everything that its judgement depends on."""
    told = sorted((one.package, one.digest, overlaps.get(one.package, ())) for one in claims)
    whole = hashlib.sha256(repr((_FORMAT, site, part, device, told)).encode("utf-8", "surrogateescape"))
    whole.update(records.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()
