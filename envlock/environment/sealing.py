"""Taking stock of a finished tree: every file against its RECORD, then the inventory and the environment's digest."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock.environment.digests import DigestMemory, Identity
from envlock.environment.distributions import Distribution
from envlock.environment.inventory import Entry, Tree

# Files that differ between two builds of one lock in different folders, or on different hosts, and say nothing of it.
_HOST_FILES = frozenset({"pyvenv.cfg", "CACHEDIR.TAG", ".gitignore", ".lock"})
OWN = "envlock-guard"  # comes with envlock, not with the lock: two hosts may run two releases of envlock
_GENERATED = frozenset({"INSTALLER", "REQUESTED", "RECORD", "uv_cache.json", "uv_build.json", "direct_url.json"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """An installed file that is not what its distribution recorded: a poisoned cache, or two owners."""

    package: str
    path: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stock:
    """What a tree holds."""

    entries: tuple[Entry, ...]
    digest: str
    """sha256 of the tree with the prefix and the host taken out: the same wherever this lock was realised."""
    damage: tuple[Damage, ...]
    counts: dict[str, tuple[int, int]]
    """Package -> (files, bytes)."""
    tree: Tree
    """The walk all of this was made from."""

    @property
    def bytes(self) -> int:
        """Apparent size of all files."""
        return sum(entry.size for entry in self.entries)


def take_stock(
    prefix: Path,
    site: Path,
    installed: Iterable[Distribution],
    tree: Tree,
    memory: DigestMemory,
    overlaps: Mapping[str, tuple[str, ...]],
) -> Stock:
    """Hash and judge every file that `tree` shows; a remembered digest counts where a file's identity is the same.

    A file that two packages claim with different bytes is damage, unless `overlaps` (winner -> losers) says whose bytes
    are wanted; then it must hold those.
    """
    root = os.fspath(prefix)
    site_below = os.path.relpath(site, prefix)
    owners: dict[str, str] = {}
    recorded: dict[str, str] = {}
    damage: list[Damage] = []
    for distribution in installed:
        for record in distribution.records:
            path = _below(site_below, record.path)
            before = recorded.get(path)
            if before and record.sha256 and before != record.sha256:
                if distribution.name in overlaps.get(owners[path], ()):
                    continue
                if owners[path] not in overlaps.get(distribution.name, ()):
                    detail = f"also claimed by {owners[path]}, other bytes"
                    damage.append(Damage(package=distribution.name, path=path, detail=detail))
            owners[path] = distribution.name
            if record.sha256:
                recorded[path] = record.sha256
    device = os.stat(prefix).st_dev
    shared: list[tuple[str, Identity]] = []
    own: list[tuple[str, Identity]] = []
    by_path: dict[str, str] = {}
    for path, now in tree.files.items():
        if now.is_link:
            by_path[path] = f"-> {now.target}"
        else:
            (shared if now.shared else own).append((path, (device, now.inode, now.size, now.mtime_ns)))
    by_path.update(memory.hash_all(root, shared))
    by_path.update(memory.hash_all(root, own, remember=False))
    for path, expected in recorded.items():
        actual = by_path.get(path)
        if actual != expected:
            if actual is not None:
                damage.append(
                    Damage(package=owners[path], path=path, detail="its bytes are not those the wheel recorded")
                )
            elif not path.endswith(".pyc"):
                damage.append(Damage(package=owners[path], path=path, detail="missing"))
    entries = []
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path in sorted(by_path):
        now = tree.files[path]
        owner = owners.get(path, "")
        entries.append(Entry(path, by_path[path], now.size, now.mtime_ns, owner))
        files[owner] += 1
        sizes[owner] += now.size
    counts = {owner: (number, sizes[owner]) for owner, number in files.items()}
    digest = _digest(root, entries)
    return Stock(entries=tuple(entries), digest=digest, damage=tuple(damage), counts=counts, tree=tree)


def _below(site: str, recorded: str) -> str:
    return os.path.normpath(f"{site}/{recorded}") if recorded[:2] == ".." else f"{site}/{recorded}"


def _digest(root: str, entries: Iterable[Entry]) -> str:
    whole = hashlib.sha256()
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.package == OWN or entry.path in _HOST_FILES or (folder.endswith(".dist-info") and name in _GENERATED):
            continue
        if folder == "bin":
            whole.update(f"{_script_digest(root, entry)} {entry.path}\n".encode("utf-8", "surrogateescape"))
        else:
            whole.update(f"{entry.sha256} {entry.path}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _script_digest(root: str, entry: Entry) -> str:
    """Return a console script's digest without the lines that name its interpreter; an interpreter link counts as such.

    Installers write a plain `#!` line, or where the path is too long for one a three-line `exec` through /bin/sh.
    """
    if entry.sha256.startswith("-> "):
        return "interpreter" if entry.path.startswith("bin/python") else entry.sha256
    if entry.path.rpartition("/")[2].startswith(("activate", "deactivate", "pydoc")):
        return "activation"
    with open(f"{root}/{entry.path}", "rb") as file:
        if file.read(2) != b"#!":
            return entry.sha256
        lines = file.read().split(b"\n")
    body = [line for number, line in enumerate(lines) if number > 2 or not _names_interpreter(line, number, root)]
    return hashlib.sha256(b"\n".join(body)).hexdigest()


def _names_interpreter(line: bytes, number: int, root: str) -> bool:
    return number == 0 or root.encode() in line or line.strip() == b"' '''"
