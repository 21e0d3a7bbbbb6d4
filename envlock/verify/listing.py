"""Telling at once that nothing changed: what `find` says of every file, as text, then and now.

`seal/listing` has a first line with each top-level entry, the number of its files and the length of its text, then that
text as find prints it, one record a file. An unchanged environment is told in the same words, so texts are compared
and no record is taken apart; only when they differ is it worth asking which file, whose, and how
(environment/inventory.py). The cost is the kernel's, an lstat a file, and is shared by several finds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envlock import system
from envlock.environment.inventory import Drift, Tree, drift
from envlock.environment.seal import FOLDER
from envlock.errors import ToolMissing

FILE = "listing"
_HEAD = "envlock-listing 1 "
_LEFT_OUT = frozenset({FOLDER, f".{FOLDER}.part"})
_BYTE_CODE = "__pycache__"
# Byte code is derived, and unchecked at run time: what matters are its sources.
_PRINT = ["-type", "d", "-name", "__pycache__", "-prune", "-o", "!", "-type", "d", "-printf", r"%s %T@ %p\t%l\0"]
_PROCESSES = 4


def of(tree: Tree) -> bytes:
    """Return the listing of what a walk saw, in the words in which find would tell it."""
    pythons = {
        path.split("/")[1] for path in tree.folders if path.startswith("lib/") and path.endswith("/site-packages")
    }
    above = {"lib", *(f"lib/{python}{below}" for python in pythons for below in ("", "/site-packages"))}
    records: dict[str, list[str]] = {}
    for path in tree.folders:
        if path not in above and path == _start(path, pythons):
            records[path] = []  # one without a file in it counts, too
    for path, found in tree.files.items():
        seconds, rest = divmod(found.mtime_ns, 1_000_000_000)
        record = f"{found.size} {seconds}.{rest:09d}0 {path}\t{found.target}\0"
        records.setdefault(_start(path, pythons), []).append(record)
    texts = {start: "".join(found) for start, found in records.items()}
    head = [(start, len(found), len(texts[start])) for start, found in records.items()]
    return f"{_HEAD}{json.dumps(head)}\n{''.join(texts.values())}".encode("utf-8", "surrogateescape")


def _start(path: str, pythons: Container[str]) -> str:
    """Return the one of `_starts` that a path lies at or below."""
    if not path.startswith("lib/"):
        return path.partition("/")[0]
    parts = path.split("/", 4)
    if parts[1] not in pythons:
        return "/".join(parts[:2])
    return "/".join(parts[:4] if parts[2:3] == ["site-packages"] else parts[:3])


def same(prefix: Path) -> bool:
    """Tell whether every file's size, time and link target is as listed and none came or went.

    False also when it cannot be told.
    """
    try:
        with open(prefix / FOLDER / FILE, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        head, _, rest = text.partition("\n")
        parts = json.loads(head.removeprefix(_HEAD)) if head.startswith(_HEAD) else None
        sealed, counts, at = {}, {}, 0
        for start, count, length in parts or ():
            sealed[start], counts[start] = rest[at : at + length], count
            at += length
    except (OSError, ValueError, TypeError):
        return False
    if not sealed or sealed.keys() != set(_starts(prefix)):
        return False
    shares = _shares(counts)
    with ThreadPoolExecutor(len(shares)) as pool:
        outputs = list(pool.map(lambda share: _find(prefix, share), shares))
    return all(
        now is not None and _equal("".join(sealed[start] for start in share), now)
        for share, now in zip(shares, outputs, strict=True)
    )


def drifted(prefix: Path) -> list[Drift]:
    """Return what differs from the seal by lstat: nothing at once where the listing says so, else file by file.

    Raises StoreError when something differs and the seal has no inventory.
    """
    return [] if same(prefix) else drift(prefix, deep=False)


def _equal(one: str, other: str) -> bool:
    """Compare records; a folder that was copied or checked may list the same files in another order."""
    return one == other or (len(one) == len(other) and sorted(one.split("\0")) == sorted(other.split("\0")))


def _starts(prefix: Path) -> Iterator[str]:
    """Yield what lies directly in the prefix and in its site-packages folders, site-packages itself taken apart."""
    for name in os.listdir(prefix):
        if name in _LEFT_OUT:
            continue
        if name != "lib":
            yield name
            continue
        for python in os.listdir(prefix / name):
            site = prefix / name / python / "site-packages"
            if not site.is_dir() or site.is_symlink():
                yield f"{name}/{python}"
                continue
            beside = (other for other in os.listdir(site.parent) if other != "site-packages")
            yield from (f"{name}/{python}/{other}" for other in beside if other != _BYTE_CODE)
            yield from (f"{name}/{python}/site-packages/{entry}" for entry in os.listdir(site) if entry != _BYTE_CODE)


def _shares(counts: Mapping[str, int]) -> list[list[str]]:
    """Return starting points in as many shares as there are cores, with about as many files in each."""
    number = max(1, min(_PROCESSES, os.cpu_count() or 1, len(counts)))
    shares: list[tuple[int, list[str]]] = [(0, []) for _ in range(number)]
    for start in sorted(counts, key=lambda start: (-counts[start], start)):
        least = min(range(number), key=lambda index: shares[index][0])
        total, members = shares[least]
        shares[least] = (total + max(1, counts[start]), [*members, start])
    return [members for _, members in shares]


def _find(prefix: Path, starts: list[str]) -> str | None:
    """Return find's records of everything below the starting points, in their order; None when it fails."""
    try:
        done = system.run(
            ["find", *starts, *_PRINT],
            env={"PATH": os.defpath, "LC_ALL": "C"},
            cwd=prefix,
            errors="surrogateescape",
        )
    except (OSError, ToolMissing):
        return None
    return done.stdout if done.returncode == 0 else None
