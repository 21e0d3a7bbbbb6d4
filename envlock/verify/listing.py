"""Telling at once that nothing changed: what `find` says of every file, as text, then and now.

`seal/listing` has a first line with the number of files below each top-level entry, then one record a file as find
prints it. An unchanged environment lists the same records, so two sets are compared and no line is taken apart; only
when they differ is it worth asking which file, whose, and how (environment/inventory.py). The cost is the kernel's,
an lstat a file, and is shared by several finds.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envlock import system
from envlock.environment.seal import FOLDER
from envlock.errors import ToolMissing

FILE = "listing"
_HEAD = "envlock-listing 1 "
_LEFT_OUT = frozenset({FOLDER, f".{FOLDER}.part"})
# Byte code is derived, and unchecked at run time: what matters are its sources.
_PRINT = ["-type", "d", "-name", "__pycache__", "-prune", "-o", "!", "-type", "d", "-printf", r"%s %T@ %l %p\0"]
_PROCESSES = 4


def make(prefix: Path) -> bytes | None:
    """Return the listing of a finished prefix; None where no find can make one."""
    records = _records(prefix, {})
    if records is None:
        return None
    counts = Counter(_top(record.split(" ", 3)[3]) for record in records)
    text = f"{_HEAD}{json.dumps(counts)}\n" + "\0".join(sorted(records))
    return text.encode("utf-8", "surrogateescape")


def same(prefix: Path) -> bool:
    """Tell whether every file's size, time and link target is as listed and none came or went.

    False also when it cannot be told.
    """
    try:
        text = (prefix / FOLDER / FILE).read_text(encoding="utf-8", errors="surrogateescape")
        head, _, rest = text.partition("\n")
        counts = json.loads(head.removeprefix(_HEAD)) if head.startswith(_HEAD) else None
    except (OSError, ValueError):
        return False
    if not isinstance(counts, dict):
        return False
    now = _records(prefix, counts)
    return now is not None and len(now) == rest.count("\0") + 1 and set(now) == set(rest.split("\0"))


def _top(path: str) -> str:
    """Return the part of a path that one find starts from: an entry of site-packages, or of the prefix."""
    head, found, rest = path.partition("/site-packages/")
    return f"{head}{found}{rest.split('/', 1)[0]}" if found else path.split("/", 1)[0]


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
            yield from (f"{name}/{python}/{other}" for other in os.listdir(site.parent) if other != "site-packages")
            yield from (f"{name}/{python}/site-packages/{entry}" for entry in os.listdir(site))


def _records(prefix: Path, counts: Mapping[str, int]) -> list[str] | None:
    """Return find's records of everything, from several finds with about as many files each."""
    shares: list[tuple[int, list[str]]] = [(0, []) for _ in range(min(_PROCESSES, os.cpu_count() or 1))]
    for start in sorted(_starts(prefix), key=lambda start: -counts.get(start, 1)):
        least = min(range(len(shares)), key=lambda index: shares[index][0])
        total, members = shares[least]
        shares[least] = (total + counts.get(start, 1), [*members, start])

    def find(starts: list[str]) -> str | None:
        done = system.run(
            ["find", *starts, *_PRINT],
            env={"PATH": os.defpath, "LC_ALL": "C"},
            cwd=prefix,
            errors="surrogateescape",
        )
        return done.stdout if done.returncode == 0 else None

    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            outputs = list(pool.map(find, [members for _, members in shares if members]))
    except (OSError, ToolMissing):
        return None
    if None in outputs:
        return None
    return [record for output in outputs if output for record in output.split("\0")[:-1]]
