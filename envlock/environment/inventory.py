"""What a generation holds, file by file, and what no longer is as it was sealed.

`seal/inventory` has one line a file, sorted by path, tab-separated: `sha256 size mtime_ns package path`; a link
has `-> TARGET` for its sha256. Byte code in `__pycache__` is not listed: it is derived from files that are, and comes
from envlock's own cache. But it is what runs, never checked against its source, so `seal/bytecode` lists it in the same
form, and `deep` holds it against that. Byte code that came later (of `python -O`, say) is no drift.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

from envlock.environment import modes, stamp
from envlock.environment.digests import hash_all, read_regular
from envlock.environment.distributions import site_packages
from envlock.environment.seal import FOLDER
from envlock.environment.tree import Tree, scan
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
        text = read_regular(path).decode("utf-8", "surrogateescape")
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
    if not deep:
        return sorted(_by_look(prefix, sealed, times=True))
    byte_code = read_inventory(prefix, BYTE_CODE).values() if (prefix / FOLDER / BYTE_CODE).exists() else ()
    entries = [*(entry for entry in sealed.values() if not entry.sha256.startswith("-> ")), *byte_code]
    entries.sort(key=lambda entry: -entry.size)
    with ThreadPoolExecutor(1) as beside:  # looking takes one core, so hashing need not wait for it
        hashing = beside.submit(hash_all, [(f"{prefix}/{entry.path}", entry.size) for entry in entries])
        found = {item.path: item for item in _by_look(prefix, sealed, times=False)}
        for entry, digest in zip(entries, hashing.result(), strict=True):
            if digest != entry.sha256 and entry.path not in found:
                found[entry.path] = _other_bytes(prefix, entry, readable=bool(digest))
    return sorted(found.values())


def _other_bytes(prefix: Path, entry: Entry, *, readable: bool) -> Drift:
    what = "its bytes are not the sealed ones" if readable else "cannot be read"
    if "/__pycache__/" in entry.path:
        what = "byte code, which is what runs"
    there = os.path.lexists(prefix / entry.path)
    return Drift(entry.path, entry.package or owner_by_place(entry.path), "changed" if there else "missing", what)


def _by_look(prefix: Path, sealed: Mapping[str, Entry], *, times: bool) -> Iterator[Drift]:
    """Yield what a walk shows to be different; with `times`, what was modified, too."""
    site = _site(prefix)
    now = scan(prefix, site)
    for path, one in now.files.items():
        entry = sealed.get(path)
        if entry is None:
            yield Drift(path, owner_by_place(path), "added")
        elif one.is_link:
            if f"-> {one.target}" != entry.sha256:
                yield Drift(path, entry.package, "changed", f"now -> {one.target}")
        elif entry.sha256.startswith("-> "):
            yield Drift(path, entry.package, "changed", f"no longer {entry.sha256}")
        elif one.size != entry.size:
            yield Drift(path, entry.package, "changed", f"{entry.size} bytes sealed, {one.size} now")
        elif times and one.mtime_ns != entry.mtime_ns:
            yield Drift(path, entry.package, "changed", "modified after it was sealed")
    yield from (Drift(path, entry.package, "missing") for path, entry in sealed.items() if path not in now.files)
    for path, mode in now.odd():
        if path in sealed:
            yield Drift(path, sealed[path].package, "changed", modes.fault(mode))
    for path in _bare(prefix, site, now):
        yield Drift(path, owner_by_place(path), "added", BARE)


def _site(prefix: Path) -> Path | None:
    try:
        return site_packages(prefix)
    except FileNotFoundError:
        return None


def _bare(prefix: Path, site: Path | None, now: Tree) -> list[str]:
    """Return the folders in site-packages that came later and hold no file, so that nothing else tells them.

    Python imports one as a package, and takes a `.dist-info` for a distribution.
    """
    below = None if site is None else os.path.relpath(site, prefix)
    empty = {f"{below}/{name}" for name, records in now.records.items() if name and not records}
    there = empty & now.folders.keys()
    return sorted(there - stamp.folders(str(prefix))) if there else []


def owner_by_place(path: str) -> str:
    """Return the import package or distribution a path lies in, for a file no distribution recorded."""
    _, _, rest = path.partition("site-packages/")
    return rest.split("/", 1)[0].removesuffix(".py") if rest else ""
