"""What a generation holds, file by file, and what no longer is as it was sealed.

`seal/inventory` has one line a file, sorted by path, tab-separated: `sha256 size mtime_ns package path`; a link
has `-> TARGET` for its sha256. Byte code in `__pycache__` is not listed: it is derived from files that are, comes
from envlock's own cache, and is never checked against its source at run time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from envlock.environment.digests import DigestMemory, Identity
from envlock.environment.seal import FOLDER
from envlock.errors import StoreError

FILE = "inventory"


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


def scan(prefix: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative path, lstat) of every file and link below a prefix, but for the seal and byte code."""
    root = os.fspath(prefix)
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name != "__pycache__" and not (name == FOLDER and not folder):
                        stack.append(f"{folder}{name}/")
                    elif name == "__pycache__":
                        yield from _not_byte_code(f"{folder}{name}/", entry.path)
                else:
                    yield f"{folder}{name}", entry.stat(follow_symlinks=False)


def _not_byte_code(folder: str, path: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.name.endswith(".pyc"):
                yield f"{folder}{entry.name}", entry.stat(follow_symlinks=False)


def identity(status: os.stat_result) -> Identity:
    """Return what a file's digest is remembered by."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def dump(entries: Iterable[Entry]) -> str:
    """Return an inventory as text."""
    return "".join(
        f"{entry.sha256}\t{entry.size}\t{entry.mtime_ns}\t{entry.package}\t{entry.path}\n" for entry in entries
    )


def read_inventory(prefix: Path) -> dict[str, Entry]:
    """Return path -> entry as sealed. Raises StoreError when the seal holds none."""
    path = prefix / FOLDER / FILE
    entries: dict[str, Entry] = {}
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                sha256, size, mtime, package, name = line.rstrip("\n").split("\t", 4)
                entries[name] = Entry(name, sha256, int(size), int(mtime), package)
    except (OSError, ValueError) as error:
        raise StoreError(
            "the seal has no readable inventory",
            where=str(path),
            found=str(error),
            hint="envlock sync --rebuild",
        ) from error
    return entries


def drift(prefix: Path, *, deep: bool) -> list[Drift]:
    """Return what differs from the seal: by lstat, or with `deep` by hashing every byte on all cores.

    Deep trusts no remembered digest. Raises StoreError when there is no inventory.
    """
    sealed = read_inventory(prefix)
    found: list[Drift] = []
    to_hash: list[tuple[str, Identity]] = []
    root = os.fspath(prefix)
    seen = 0
    for path, status in scan(prefix):
        entry = sealed.get(path)
        if entry is None:
            found.append(Drift(path, owner_by_place(path), "added"))
            continue
        seen += 1
        if stat.S_ISLNK(status.st_mode):
            target = f"-> {os.readlink(f'{root}/{path}')}"
            if target != entry.sha256:
                found.append(Drift(path, entry.package, "changed", f"now {target}"))
        elif status.st_size != entry.size:
            found.append(Drift(path, entry.package, "changed", f"{entry.size} bytes sealed, {status.st_size} now"))
        elif deep:
            to_hash.append((path, identity(status)))
        elif status.st_mtime_ns != entry.mtime_ns:
            found.append(Drift(path, entry.package, "changed", "modified after it was sealed"))
    if seen < len(sealed):
        present = {path for path, _ in scan(prefix)}
        found += [Drift(path, entry.package, "missing") for path, entry in sealed.items() if path not in present]
    if to_hash:
        found += _by_hash(root, to_hash, sealed)
    return sorted(found)


def _by_hash(root: str, items: list[tuple[str, Identity]], sealed: dict[str, Entry]) -> list[Drift]:
    fresh = DigestMemory(Path("/nonexistent"))
    digests = fresh.hash_all((f"{root}/{path}", identity) for path, identity in items)
    return [
        Drift(path, sealed[path].package, "changed", "its bytes are not the sealed ones")
        for path, _ in items
        if digests[f"{root}/{path}"] != sealed[path].sha256
    ]


def owner_by_place(path: str) -> str:
    """Return the import package or distribution a path lies in, for a file no distribution recorded."""
    _, _, rest = path.partition("site-packages/")
    return rest.split("/", 1)[0].removesuffix(".py") if rest else ""
