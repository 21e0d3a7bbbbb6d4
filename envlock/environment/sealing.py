"""Taking stock of a finished tree: every file against its RECORD, then the inventory and the environment's digest.

A part of site-packages (environment/tree.py) that lies as it lay when it was judged before, under the same claims of
the same packages, is not judged again: its lines are kept (environment/parts.py).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envlock.environment import inventory, parts, stamp
from envlock.environment.digests import DigestMemory, Identity
from envlock.environment.distributions import Distribution
from envlock.environment.inventory import Entry
from envlock.environment.parts import Claim, Part, PartMemory
from envlock.environment.records import Recorded
from envlock.environment.tree import Found, Tree, is_shared, parsed, part_of

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


@dataclass(frozen=True, kw_only=True)
class Stock:
    """What a tree holds."""

    parts: tuple[Part, ...]
    """In the order of their paths."""
    digest: str
    """sha256 of the tree with the prefix and the host taken out: the same wherever this lock was realised."""
    damage: tuple[Damage, ...]
    folders: Mapping[str, int]
    """Path -> mtime in nanoseconds."""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every file, sorted by path."""
        return tuple(entry for part in self.parts for entry in inventory.parse(part.inventory))

    @cached_property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Package -> (files, bytes); files of no package under an empty name."""
        files: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for part in self.parts:
            for package, (number, size) in part.counts.items():
                files[package] += number
                sizes[package] += size
        return {package: (number, sizes[package]) for package, number in files.items()}

    @cached_property
    def lost(self) -> dict[str, frozenset[str]]:
        """Package -> its files, below site-packages, that another's lie over."""
        found: dict[str, set[str]] = {}
        for package, path in (pair for part in self.parts for pair in part.lost):
            found.setdefault(package, set()).add(path)
        return {package: frozenset(paths) for package, paths in found.items()}

    def of(self, package: str) -> list[Entry]:
        """Return the files of one package, sorted by path."""
        some = (part for part in self.parts if package in part.counts)
        return [one for part in some for one in inventory.parse(part.inventory) if one.package == package]

    @property
    def files(self) -> int:
        """Number of files and links."""
        return sum(number for number, _ in self.counts.values())

    @property
    def size(self) -> int:
        """Apparent size of all files, in bytes."""
        return sum(size for _, size in self.counts.values())

    @property
    def inventory(self) -> bytes:
        """Content of `seal/inventory`."""
        return "".join(part.inventory for part in self.parts).encode("utf-8", "surrogateescape")

    @property
    def stamp(self) -> bytes:
        """Content of `seal/stamp`."""
        folders = stamp.lines((path, None, mtime) for path, mtime in self.folders.items())
        top = [path for path in self.folders if "/" not in path]
        top += [entry.path for part in self.parts if not part.name for entry in inventory.parse(part.inventory)]
        return stamp.of([folders, *(part.stamp for part in self.parts)], [path for path in top if "/" not in path])


def take_stock(
    prefix: Path,
    site: Path,
    installed: Iterable[Distribution],
    tree: Tree,
    memory: DigestMemory,
    overlaps: Mapping[str, tuple[str, ...]],
    *,
    kept: PartMemory | None = None,
    claimed: Mapping[str, Claim] | None = None,
) -> Stock:
    """Hash and judge every file that `tree` shows; a remembered digest counts where a file's identity is the same.

    A file that two packages claim with different bytes is damage, unless `overlaps` (winner -> losers) says whose bytes
    are wanted; then it must hold those. With `kept`, parts that were judged before are taken from it; `claimed` is
    `parts.claims(installed)`, for whoever has it already.
    """
    below = os.path.relpath(site, prefix)
    device = os.stat(prefix).st_dev
    distributions = tuple(installed)
    keys: dict[str, str] = {}
    known: dict[str, Part] = {}
    recorded: Iterable[tuple[str, Sequence[Recorded]]] = ((one.name, one.records) for one in distributions)
    if kept is not None:
        claims = parts.claims(distributions) if claimed is None else claimed
        claimants: dict[str, list[Claim]] = {}
        for one in claims.values():
            for name in one.parts:
                claimants.setdefault(name, []).append(one)
        for name, records in tree.records.items():
            if name and records and not name.endswith(".dist-info") and is_shared(records):
                keys[name] = parts.key(name, records, claimants.get(name, ()), overlaps, site=below, device=device)
                part = kept.get(keys[name])
                if part is not None:
                    known[name] = part
        recorded = (
            (one.name, said.records() if (said := claims[one.folder]).parts <= known.keys() else one.records)
            for one in distributions
        )
    judge = _Judge(below, recorded, overlaps, known)
    files = parsed(records for name, records in tree.records.items() if name not in known)
    fresh, damaged = judge.judged(os.fspath(prefix), device, files, memory)
    for part in fresh:
        if kept is not None and part.name in keys and part.name not in damaged:
            kept.put(keys[part.name], part)
    every = sorted((*known.values(), *fresh), key=lambda part: part.order)
    whole = hashlib.sha256()
    for part in every:
        whole.update(part.digest.encode("utf-8", "surrogateescape"))
    return Stock(parts=tuple(every), digest=whole.hexdigest(), damage=tuple(judge.damage), folders=tree.folders)


class _Judge:
    """Holds files against what packages recorded of them."""

    def __init__(
        self,
        site: str,
        recorded: Iterable[tuple[str, Sequence[Recorded]]],
        overlaps: Mapping[str, tuple[str, ...]],
        known: Container[str],
    ) -> None:
        """Take (package, lines of its RECORD); parts that are `known` need no judgement."""
        self._site = site
        self._owners: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._lost: dict[str, list[tuple[str, str]]] = {}
        self.damage: list[Damage] = []
        for package, records in recorded:
            for record in records:
                path = _below(site, record.path)
                part = part_of(path, site)
                if part and part in known:
                    continue
                before = self._recorded.get(path)
                if before and record.sha256 and before != record.sha256:
                    owner = self._owners[path]
                    loser = package if package in overlaps.get(owner, ()) else owner
                    self._lost.setdefault(part, []).append((loser, record.path))
                    if loser == package:
                        continue
                    if owner not in overlaps.get(package, ()):
                        detail = f"also claimed by {owner}, other bytes"
                        self.damage.append(Damage(package=package, path=path, detail=detail))
                self._owners[path] = package
                if record.sha256:
                    self._recorded[path] = record.sha256

    def judged(
        self, root: str, device: int, files: Mapping[str, Found], memory: DigestMemory
    ) -> tuple[list[Part], set[str]]:
        """Return the parts that files are in, and the names of those that are not as they were recorded."""
        shared: list[tuple[str, Identity]] = []
        own: list[tuple[str, Identity]] = []
        digests: dict[str, str] = {}
        for path, now in files.items():
            if now.is_link:
                digests[path] = f"-> {now.target}"
            else:
                (shared if now.shared else own).append((path, (device, now.inode, now.size, now.mtime_ns)))
        digests.update(memory.hash_all(root, shared))
        digests.update(memory.hash_all(root, own, remember=False))
        for path, expected in self._recorded.items():
            actual = digests.get(path)
            if actual != expected:
                detail = "missing" if actual is None else "its bytes are not those the wheel recorded"
                if actual is not None or not path.endswith(".pyc"):
                    self.damage.append(Damage(package=self._owners[path], path=path, detail=detail))
        entries: dict[tuple[str, str], list[Entry]] = {}
        for path in sorted(digests):
            now = files[path]
            name = part_of(path, self._site)
            entry = Entry(path, digests[path], now.size, now.mtime_ns, self._owners.get(path, ""))
            entries.setdefault((name, _order(self._site, name, path)), []).append(entry)
        damaged = {part_of(item.path, self._site) for item in self.damage}
        made = [self._part(root, name, order, some) for (name, order), some in entries.items()]
        return made, damaged

    def _part(self, root: str, name: str, order: str, entries: Sequence[Entry]) -> Part:
        counts: dict[str, tuple[int, int]] = {}
        for entry in entries:
            number, size = counts.get(entry.package, (0, 0))
            counts[entry.package] = (number + 1, size + entry.size)
        return Part(
            name=name,
            order=order,
            inventory=inventory.dump(entries),
            digest="".join(_digest_lines(root, entries)),
            stamp=stamp.lines((entry.path, entry.size, entry.mtime_ns) for entry in entries),
            counts=counts,
            lost=tuple(self._lost.get(name, ())),
        )


def _order(site: str, part: str, path: str) -> str:
    """Return what sorts a part as its paths are sorted; what lies outside site-packages lies around it."""
    if part:
        return f"{site}/{part}/" if path.startswith(f"{site}/{part}/") else path
    return "" if path < f"{site}/" else chr(0x10FFFF)


def _below(site: str, recorded: str) -> str:
    return os.path.normpath(f"{site}/{recorded}") if recorded[:2] == ".." else f"{site}/{recorded}"


def _digest_lines(root: str, entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.package == OWN or entry.path in _HOST_FILES or (folder.endswith(".dist-info") and name in _GENERATED):
            continue
        digest = _script_digest(root, entry) if folder == "bin" else entry.sha256
        yield f"{digest} {entry.path}\n"


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
