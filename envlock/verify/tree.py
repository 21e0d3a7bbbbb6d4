"""Walking a site-packages folder: which files may hold code, what they hold, and what leads out of the environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from envlock.environment.digests import read_regular
from envlock.verify.coverage import Library, merged
from envlock.verify.elf import HEAD
from envlock.verify.facts import Outside
from envlock.verify.fatbin import DeviceCode
from envlock.verify.libraries import LibraryMemory, Read, is_assembler, is_library, may_hide_library, may_hold_code


class Walked(NamedTuple):
    """The names below a folder, relative to it."""

    files: list[str]
    """Links to folders count as files: nobody follows them."""
    links: list[str]


def walk(root: str) -> Walked:
    """Return what lies below a folder, in no order."""
    found = Walked([], [])
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                    continue
                found.files.append(path)
                if entry.is_symlink():
                    found.links.append(path)
    return found


def read_all(site: str, paths: Iterable[str], memory: LibraryMemory) -> dict[str, Read]:
    """Return path -> what it holds, for every library, cubin, archive and PTX assembler, sorted by path.

    A link is followed where it leads to a file elsewhere: what it leads to is what the loader takes.
    """
    reads: dict[str, Read] = {}
    inside = f"{os.path.realpath(site)}/"
    for path in sorted(path for path in paths if may_hide_library(path)):
        name, whole = path.rpartition("/")[2], f"{site}/{path}"
        known = may_hold_code(name) or is_assembler(name)
        try:
            status = os.lstat(whole)
            if stat.S_ISLNK(status.st_mode):
                whole = os.path.realpath(whole)
                if whole.startswith(inside):
                    continue  # read under its own name
                status = os.stat(whole)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and (known or _is_library(whole, status.st_size)):
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            reads[path] = memory.read(whole, identity, shared=not known)
    return reads


def _is_library(path: str, size: int) -> bool:
    if size < 64:  # an ELF header
        return False
    try:
        return is_library(read_regular(path, HEAD))
    except OSError:
        return False


def leading_out(prefix: Path, site: str, links: Iterable[str], owners: Mapping[str, str]) -> tuple[Outside, ...]:
    """Return the links that lead out of the prefix, or nowhere: those to folders, and those that libraries are."""
    inside = f"{os.path.realpath(prefix)}/"
    found = []
    for path in sorted(links):
        target = os.path.realpath(f"{site}/{path}")
        folder = os.path.isdir(target)
        there = folder or os.path.exists(target)
        if (there and target.startswith(inside)) or not (folder or may_hold_code(path) or not there):
            continue
        owner = owners.get(path) or next((by for name, by in owners.items() if name.startswith(f"{path}/")), "")
        found.append(Outside(path, target, owner, folder))
    return tuple(found)


def libraries_below(root: Path, package: str, memory: LibraryMemory) -> tuple[Library, ...]:
    """Return what holds device code below a folder that one package was unpacked into."""
    reads = read_all(os.fspath(root), walk(os.fspath(root)).files, memory)
    return libraries_of(reads, dict.fromkeys(reads, package))


def libraries_of(reads: Mapping[str, Read], owners: Mapping[str, str]) -> tuple[Library, ...]:
    """Return what holds device code; the bare cubins of one folder count as one library, each a container."""
    found: list[Library] = []
    folders: dict[str, list[tuple[str, Read]]] = {}
    for path, read in reads.items():
        if path.endswith(".cubin"):
            folders.setdefault(path.rpartition("/")[0], []).append((path, read))
        elif read.code.containers or read.code.problems:
            found.append(Library(path, owners.get(path, ""), read.code))
    for folder, members in folders.items():
        containers = merged([item for _, read in members for item in read.code.containers])
        problems = tuple(f"{path}: {problem}" for path, read in members for problem in read.code.problems)
        owner = owners.get(members[0][0], "")
        found.append(Library(f"{folder}/*.cubin", owner, DeviceCode(containers, problems)))
    return tuple(sorted(found))
