"""What a generation holds, file by file, and what no longer is as it was sealed.

`seal/inventory` has one line a file, sorted by path, tab-separated: `sha256 size mtime_ns package path`; a link
has `-> TARGET` for its sha256. Byte code in `__pycache__` is not listed: it is derived from files that are, and comes
from envlock's own cache. But it is what runs, never checked against its source, so `seal/bytecode` lists it in the same
form, and `deep` holds it against that. Byte code that came later (of `python -O`, say) is no drift.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from envlock import system
from envlock.environment import modes, stamp
from envlock.environment.digests import DigestMemory, Identity
from envlock.environment.seal import FOLDER
from envlock.errors import StoreError

FILE = "inventory"
BYTE_CODE = "bytecode"
SPECIAL = "a pipe, a socket or a device"
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


class Found(NamedTuple):
    """One file or link as the file system has it now."""

    inode: int
    size: int
    mtime_ns: int
    is_link: bool
    """A link, or a pipe, socket or device: nothing to open and hash."""
    target: str = ""
    """Where a link points; of the others, what they are."""
    shared: bool = False
    """Whether the file has further names: a hard link into a cache, whose identity comes back."""
    mode: str = "644"
    """Of a file: its permissions in octal, as find tells them."""


class Tree(NamedTuple):
    """Everything below a prefix but the seal and byte code, seen in one walk; paths are relative to the prefix."""

    files: dict[str, Found]
    folders: dict[str, int]
    """Path -> mtime in nanoseconds; a name that came or went has changed it."""


_UNSEEN = (FOLDER, f".{FOLDER}.part")
_SEEN = [word for name in _UNSEEN for word in ("-path", f"./{name}", "-prune", "-o")]
_SEEN += ["-type", "d", "-name", "__pycache__", "-prune", "-o"]


def scan(prefix: Path) -> Tree:
    """Return what lies below a prefix, in the order in which a walk meets it.

    GNU find does it in a third of the time and beside whatever Python does; where it is another find, Python walks.
    """
    done = _find(prefix, "-printf", r"%y %i %n %s %T@ %m %P\t%l\0")
    if done.returncode != 0:
        return walk(prefix)
    files: dict[str, Found] = {}
    folders: dict[str, int] = {}
    for line in done.stdout.split("\0")[:-1]:
        kind, inode, names, size, when, mode, rest = line.split(" ", 6)
        mtime = _nanoseconds(when)
        if kind == "d":
            folders[rest[:-1]] = mtime
        elif kind not in ("f", "l"):
            files[rest[:-1]] = Found(int(inode), int(size), mtime, True, SPECIAL)
        elif kind == "l":
            path, _, target = rest.rpartition("\t") if rest.count("\t") == 1 else _apart(prefix, rest)
            files[path] = Found(int(inode), int(size), mtime, True, target)
        else:
            files[rest[:-1]] = Found(int(inode), int(size), mtime, False, "", names != "1", mode)
    folders.pop("", None)
    return Tree(files, folders)


def folders(prefix: Path) -> dict[str, int]:
    """Return `scan(prefix).folders`, in a quarter of the time."""
    done = _find(prefix, "-type", "d", "-printf", r"%T@ %P\0")
    if done.returncode != 0:
        return walk(prefix).folders
    pairs = (record.split(" ", 1) for record in done.stdout.split("\0")[:-1])
    found = {path: _nanoseconds(when) for when, path in pairs}
    found.pop("", None)
    return found


def byte_code(prefix: Path, memory: DigestMemory) -> list[Entry]:
    """Return the byte code below a prefix, sorted by path; digests of what is shared with the cache are remembered."""
    root = os.fspath(prefix)
    device = os.stat(prefix).st_dev
    items: list[tuple[str, Identity]] = []
    for folder, _, names in os.walk(prefix):
        if folder.endswith("/__pycache__"):
            for name in names:
                path = f"{folder[len(root) + 1 :]}/{name}"
                status = os.lstat(f"{root}/{path}")
                if stat.S_ISREG(status.st_mode):
                    items.append((path, (device, status.st_ino, status.st_size, status.st_mtime_ns)))
    digests = memory.hash_all(root, items)
    return [Entry(path, digests[path], identity[2], identity[3], "") for path, identity in sorted(items)]


def _find(prefix: Path, *words: str) -> system.Completed:
    env = {"PATH": os.defpath, "LC_ALL": "C"}
    return system.run(["find", ".", *_SEEN, *words], env=env, cwd=prefix, errors="surrogateescape")


def _nanoseconds(when: str) -> int:
    """Return find's `seconds.fraction` in nanoseconds."""
    seconds, _, fraction = when.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction[:9])


def _apart(prefix: Path, rest: str) -> tuple[str, str, str]:
    """Split `path TAB target` where either may hold further tabs."""
    cut = next(at for at, letter in enumerate(rest) if letter == "\t" and os.path.islink(f"{prefix}/{rest[:at]}"))
    return rest[:cut], "\t", rest[cut + 1 :]


def walk(prefix: Path) -> Tree:
    """Return what `scan` returns, by Python alone."""
    root = os.fspath(prefix)
    files: dict[str, Found] = {}
    folders: dict[str, int] = {}
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                status = entry.stat(follow_symlinks=False)
                if not entry.is_dir(follow_symlinks=False):
                    link = not entry.is_file(follow_symlinks=False)
                    target = (os.readlink(f"{root}/{path}") if entry.is_symlink() else SPECIAL) if link else ""
                    shared = not link and status.st_nlink > 1
                    mode = "644" if link else f"{stat.S_IMODE(status.st_mode):o}"
                    files[path] = Found(status.st_ino, status.st_size, status.st_mtime_ns, link, target, shared, mode)
                elif entry.name != "__pycache__" and (folder or entry.name not in _UNSEEN):
                    folders[path] = status.st_mtime_ns
                    stack.append(f"{path}/")
    return Tree(files, folders)


def dump(entries: Iterable[Entry]) -> str:
    """Return an inventory as text."""
    return "".join(
        f"{entry.sha256}\t{entry.size}\t{entry.mtime_ns}\t{entry.package}\t{entry.path}\n" for entry in entries
    )


def read_inventory(prefix: Path, file: str = FILE) -> dict[str, Entry]:
    """Return path -> entry as sealed in a file of the seal. Raises StoreError when the seal holds none."""
    path = prefix / FOLDER / file
    entries: dict[str, Entry] = {}
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
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
    to_hash: list[tuple[str, Identity]] = []
    root = os.fspath(prefix)
    device = os.stat(root).st_dev
    present, folders_now = scan(prefix)
    for path, now in present.items():
        entry = sealed.get(path)
        if entry is None:
            found.append(Drift(path, owner_by_place(path), "added"))
        elif now.is_link:
            target = f"-> {now.target}"
            if target != entry.sha256:
                found.append(Drift(path, entry.package, "changed", f"now {target}"))
        elif now.size != entry.size:
            found.append(Drift(path, entry.package, "changed", f"{entry.size} bytes sealed, {now.size} now"))
        elif deep:
            to_hash.append((path, (device, now.inode, now.size, now.mtime_ns)))
        elif now.mtime_ns != entry.mtime_ns:
            found.append(Drift(path, entry.package, "changed", "modified after it was sealed"))
    found += [Drift(path, entry.package, "missing") for path, entry in sealed.items() if path not in present]
    found += [
        Drift(path, sealed[path].package, "changed", wrong)
        for path, now in present.items()
        if (wrong := modes.fault(now.mode)) and path in sealed
    ]
    found += [Drift(path, owner_by_place(path), "added", BARE) for path in _bare(prefix, folders_now, present, sealed)]
    if deep and (prefix / FOLDER / BYTE_CODE).exists():
        found += _byte_code_drift(prefix, read_inventory(prefix, BYTE_CODE))
    if to_hash:
        found += _by_hash(root, to_hash, sealed)
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


def _byte_code_drift(prefix: Path, sealed: dict[str, Entry]) -> list[Drift]:
    now = {entry.path: entry.sha256 for entry in byte_code(prefix, DigestMemory(Path("/nonexistent")))}
    return [
        Drift(path, owner_by_place(path), "missing" if path not in now else "changed", "byte code, which is what runs")
        for path, entry in sealed.items()
        if now.get(path) != entry.sha256
    ]


def _by_hash(root: str, items: list[tuple[str, Identity]], sealed: dict[str, Entry]) -> list[Drift]:
    fresh = DigestMemory(Path("/nonexistent"))
    digests = fresh.hash_all(root, items)
    return [
        Drift(path, sealed[path].package, "changed", "its bytes are not the sealed ones")
        for path, _ in items
        if digests[path] != sealed[path].sha256
    ]


def owner_by_place(path: str) -> str:
    """Return the import package or distribution a path lies in, for a file no distribution recorded."""
    _, _, rest = path.partition("site-packages/")
    return rest.split("/", 1)[0].removesuffix(".py") if rest else ""
