"""What lies below a prefix now: one walk, told by part, so that what lies as it lay before need not be taken apart.

A *part* is what lies at one name directly in site-packages (`torch`, `six.py`, `torch-2.11.0.dist-info`); everything
outside site-packages is the part without a name. A part's *records* are what `find` says of each of its files, sorted:
equal text means the same files, by inode, size and time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from envlock import system
from envlock.environment import modes
from envlock.environment.seal import FOLDER
from envlock.errors import ToolMissing

SPECIAL = "a pipe, a socket or a device"
_UNSEEN = (FOLDER, f".{FOLDER}.part")
_BYTE_CODE = "__pycache__"
_PROCESSES = 8
_SHARES = 2  # finds for each core: a few folders hold most files, and nobody knows which before
# "!" goes before the record of a file whose mode is odd (environment/modes.py), then "s" if it has further names.
_ODD = ["(", "-type", "f", "(", "-perm", "/6000", "-o", "!", "-perm", "-0400", ")", "-printf", "!", "-o", "-true", ")"]
_SHARED = ["(", "-type", "f", "-links", "+1", "-printf", "s", "-o", "-true", ")"]
_PRUNED = ["-name", _BYTE_CODE, "-type", "d", "-prune", "-o", *_ODD, *_SHARED, "-printf"]
_FORM = r"%y %i %s %T@ %m "  # then `PATH//TARGET`: two slashes stand in no path that find makes, only in targets
_BETWEEN = os.devnull  # a starting point between the parts: its record tells where one ends


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


class Tree:
    """Everything below a prefix but the seal and byte code, seen in one walk; paths are relative to the prefix."""

    def __init__(self, records: Mapping[str, str], folders: dict[str, int]) -> None:
        """Take part -> its sorted records, and folder -> mtime in nanoseconds: a name that comes or goes changes it."""
        self.records = records
        self.folders = folders

    @cached_property
    def files(self) -> dict[str, Found]:
        """Path -> file or link."""
        return parsed(self.records.values())

    def odd(self) -> list[tuple[str, str]]:
        """Return (path, mode in octal) of the files whose mode no installed file has."""
        some = parsed(text for text in self.records.values() if text[:1] == "!" or "\0!" in text)
        return [(path, found.mode) for path, found in some.items() if modes.fault(found.mode)]


def parsed(records: Iterable[str]) -> dict[str, Found]:
    """Return path -> what records say of it."""
    files: dict[str, Found] = {}
    for record in "".join(records).split("\0")[:-1]:
        kind, inode, size, when, mode, rest = record.split(" ", 5)
        path, _, target = rest.partition("//")
        if kind == "l":
            files[path] = Found(int(inode), int(size), _nanoseconds(when), True, target)
        elif kind[-1] == "f":
            files[path] = Found(int(inode), int(size), _nanoseconds(when), False, "", "s" in kind, mode)
        else:
            files[path] = Found(int(inode), int(size), _nanoseconds(when), True, SPECIAL)
    return files


def is_shared(records: str) -> bool:
    """Tell whether every file of a part has further names elsewhere, and there is nothing else, nor an odd mode."""
    return records.count("\0sf ") + records.startswith("sf ") == records.count("\0")


def part_of(path: str, site: str) -> str:
    """Return the part that a path (relative to the prefix, as `site` is) lies in."""
    return path[len(site) + 1 :].partition("/")[0] if path.startswith(f"{site}/") else ""


def scan(prefix: Path, site: Path | None = None) -> Tree:
    """Return what lies below a prefix; without `site` (site-packages) all of it is one part.

    GNU find does it in a third of the time and beside whatever Python does; where it is another find, Python walks.
    """
    below = "" if site is None else os.path.relpath(site, prefix)
    names = [] if site is None else [name for name in sorted(os.listdir(site)) if name != _BYTE_CODE]
    cores = min(_PROCESSES, len(os.sched_getaffinity(0)))
    number = max(1, min(cores * _SHARES, len(names)))
    shares = [["", *names[::number]], *(names[at::number] for at in range(1, number))]
    with ThreadPoolExecutor(cores) as pool:
        told = [pair for pairs in pool.map(lambda share: _told(prefix, below, share), shares) for pair in pairs]
    records: dict[str, str] = {}
    folders: dict[str, int] = {}
    for name, text in told:
        every = text.split("\0")[:-1]
        files = sorted(record for record in every if record[0] != "d")
        records[name] = "".join(f"{record}\0" for record in files)
        if len(files) != len(every):
            for record in every:
                if record[0] == "d":
                    _, _, _, when, _, path = record.split(" ", 5)
                    folders[path[:-2]] = _nanoseconds(when)
    return Tree({name: records[name] for name in ("", *names)}, folders)


def again(prefix: Path, folders: Iterable[str]) -> dict[str, int]:
    """Return the times of known folders as they are now."""
    return {path: os.lstat(f"{prefix}/{path}").st_mtime_ns for path in folders}


def _told(prefix: Path, site: str, parts: list[str]) -> list[tuple[str, str]]:
    """Return (part, records of its files and folders in any order) of each part."""
    if "" in parts:
        return [("", _rest(prefix, site)), *(_told(prefix, site, parts[1:]) if parts[1:] else [])]
    starts = [word for name in parts for word in (f"{site}/{name}", _BETWEEN)]
    text = _find(prefix, [_BETWEEN, *starts], [*_PRUNED, f"{_FORM}%p//%l\\0"])
    if text is not None:
        between, _, rest = text.partition("\0")
        pieces = rest.split(f"{between}\0")
        if len(pieces) == len(parts) + 1:
            return list(zip(parts, pieces, strict=False))
    return [(name, "".join(f"{record}\0" for record in _walked(prefix, [f"{site}/{name}"]))) for name in parts]


def _rest(prefix: Path, site: str) -> str:
    """Return the records of everything that is in no part with a name."""
    left_out = [f"./{name}" for name in _UNSEEN] + ([f"./{site}/*"] if site else [])
    pruned = [word for path in left_out for word in ("-path", path, "-prune", "-o")]
    text = _find(prefix, ["."], [*pruned, "-path", ".", "-o", *_PRUNED, f"{_FORM}%P//%l\\0"])
    if text is None:
        parts = [f"{site}/{name}" for name in os.listdir(prefix / site)] if site else []
        text = "".join(f"{record}\0" for record in _walked(prefix, os.listdir(prefix), [*_UNSEEN, *parts]))
    return text


def _find(prefix: Path, starts: list[str], words: list[str]) -> str | None:
    """Return what find tells, or None when it fails or is not GNU's."""
    try:
        env = {"PATH": os.defpath, "LC_ALL": "C"}
        done = system.run(["find", *starts, *words], env=env, cwd=prefix, errors="surrogateescape")
    except ToolMissing:
        return None
    return done.stdout if done.returncode == 0 else None


def _walked(prefix: Path, starts: Iterable[str], leave_out: Iterable[str] = ()) -> list[str]:
    """Return the records that find would tell, folders included."""
    unseen = set(leave_out)
    found: list[str] = []
    stack = [path for path in starts if path not in unseen]
    while stack:
        path = stack.pop()
        status = os.lstat(f"{prefix}/{path}")
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "p")
        if kind == "d":
            if path.rpartition("/")[2] == _BYTE_CODE:
                continue
            stack += [below for name in os.listdir(f"{prefix}/{path}") if (below := f"{path}/{name}") not in unseen]
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        flag = "!" if kind == "f" and modes.fault(mode) else ""
        flag += "s" if kind == "f" and status.st_nlink > 1 else ""
        seconds, rest = divmod(status.st_mtime_ns, 1_000_000_000)
        target = os.readlink(f"{prefix}/{path}") if kind == "l" else ""
        found.append(f"{flag}{kind} {status.st_ino} {status.st_size} {seconds}.{rest:09d}0 {mode} {path}//{target}")
    return found


_KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}


def _nanoseconds(when: str) -> int:
    """Return find's `seconds.fraction` in nanoseconds."""
    seconds, _, fraction = when.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction[:9])
