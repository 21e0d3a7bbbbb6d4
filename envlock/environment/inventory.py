"""What a generation holds, file by file, and what no longer is as it was sealed.

`seal/inventory` has one line a file, sorted by path, tab-separated: `sha256 size mtime_ns package path`; a link
has `-> TARGET` for its sha256. Byte code in `__pycache__` is not listed: it is derived from files that are, and comes
from envlock's own cache. But it is what runs, never checked against its source, so `seal/bytecode` lists it in the same
form, and `deep` holds it against that. Byte code that came later (of `python -O`, say) is no drift.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from envlock.environment import modes, stamp
from envlock.environment.digests import hash_all
from envlock.environment.seal import FOLDER
from envlock.environment.tree import scan
from envlock.errors import StoreError

FILE = "inventory"
BYTE_CODE = "bytecode"
BARE = "a folder without files"


class Entry(NamedTuple):
    """One sealed file."""

    path: str
    """Relative to the prefix."""
    sha256: str
    size: int
    mtime_ns: int
    package: str
    """Normalised name of the distribution that owns it, or empty."""


class Drift(NamedTuple):
    """One difference between a generation and its seal."""

    path: str
    package: str
    kind: Literal["added", "missing", "changed"]
    detail: str = ""


def dump(entries: Iterable[Entry]) -> str:
    """Return an inventory as text."""
    return "".join(
        f"{entry.sha256}\t{entry.size}\t{entry.mtime_ns}\t{entry.package}\t{entry.path}\n" for entry in entries
    )


def parse(text: str) -> Iterator[Entry]:
    """Yield the entries of an inventory. Raises ValueError when a line is none."""
    for line in text.split("\n")[:-1]:
        sha256, size, mtime, package, path = line.split("\t", 4)
        yield Entry(path, sha256, int(size), int(mtime), package)


def read_inventory(prefix: Path, file: str = FILE) -> dict[str, Entry]:
    """Return path -> entry as sealed in a file of the seal. Raises StoreError when the seal holds none."""
    path = prefix / FOLDER / file
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as lines:
            text = lines.read()
        return {entry.path: entry for entry in parse(text)}
    except (OSError, ValueError) as error:
        raise StoreError(
            "the seal has no readable inventory",
            where=str(path),
            found=str(error),
            hint="envlock sync --rebuild",
        ) from error


def drifted(prefix: Path) -> list[Drift]:
    """Return what differs from the seal by lstat: nothing at once where the stamp says so, else file by file.

    Raises StoreError when something differs and the seal has no inventory.
    """
    if stamp.unchanged(str(prefix)):
        return []
    found = drift(prefix, deep=False)
    if not found:
        stamp.settle(str(prefix))
    return found


def drift(prefix: Path, *, deep: bool) -> list[Drift]:
    """Return what differs from the seal: by lstat, or with `deep` by hashing every byte on all cores.

    Deep trusts no remembered digest. Raises StoreError when there is no inventory.
    """
    sealed = read_inventory(prefix)
    found: list[Drift] = []
    to_hash: list[Entry] = []
    now = scan(prefix)
    present = now.files
    for path, one in present.items():
        entry = sealed.get(path)
        if entry is None:
            found.append(Drift(path, owner_by_place(path), "added"))
        elif one.is_link:
            target = f"-> {one.target}"
            if target != entry.sha256:
                found.append(Drift(path, entry.package, "changed", f"now {target}"))
        elif one.size != entry.size:
            found.append(Drift(path, entry.package, "changed", f"{entry.size} bytes sealed, {one.size} now"))
        elif deep:
            to_hash.append(entry)
        elif one.mtime_ns != entry.mtime_ns:
            found.append(Drift(path, entry.package, "changed", "modified after it was sealed"))
    found += [Drift(path, entry.package, "missing") for path, entry in sealed.items() if path not in present]
    for path, mode in now.odd():
        if path in sealed:
            found.append(Drift(path, sealed[path].package, "changed", modes.fault(mode)))
    there = _bare(prefix, now.folders, present, sealed)
    found += [Drift(path, owner_by_place(path), "added", BARE) for path in there]
    if deep:
        byte_code = read_inventory(prefix, BYTE_CODE).values() if (prefix / FOLDER / BYTE_CODE).exists() else ()
        found += _by_hash(os.fspath(prefix), [*to_hash, *byte_code])
    return sorted(found)


def _bare(prefix: Path, there: Iterable[str], present: Iterable[str], sealed: Iterable[str]) -> list[str]:
    """Return the folders in site-packages that came later and hold no file, so that nothing else tells them.

    Python imports one as a package, and takes a `.dist-info` for a distribution.
    """
    tops = [path for path in there if "/site-packages/" in path and path == _top(path)]
    held = {_top(path) for paths in (present, sealed) for path in paths}
    new = set(tops) - held
    return sorted(new - stamp.folders(str(prefix))) if new else []


def _top(path: str) -> str:
    """Return what a path lies in or is, directly in site-packages."""
    above, between, below = path.partition("/site-packages/")
    return f"{above}{between}{below.partition('/')[0]}"


def _by_hash(root: str, entries: list[Entry]) -> Iterator[Drift]:
    """Yield what has other bytes than it was sealed with."""
    entries.sort(key=lambda entry: -entry.size)
    digests = hash_all((f"{root}/{entry.path}", entry.size) for entry in entries)
    for entry, digest in zip(entries, digests, strict=True):
        if digest != entry.sha256:
            there = os.path.lexists(f"{root}/{entry.path}")
            what = "its bytes are not the sealed ones" if digest else "cannot be read"
            if "/__pycache__/" in entry.path:
                what = "byte code, which is what runs"
            package = entry.package or owner_by_place(entry.path)
            yield Drift(entry.path, package, "changed" if there else "missing", what)


def owner_by_place(path: str) -> str:
    """Return the import package or distribution a path lies in, for a file no distribution recorded."""
    _, _, rest = path.partition("site-packages/")
    return rest.split("/", 1)[0].removesuffix(".py") if rest else ""
