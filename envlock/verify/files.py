"""Reading an environment's files into facts, and its surroundings. The effects of the static tier are all here."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from envlock import __version__, disk
from envlock.declare.profile import Profile
from envlock.environment import store
from envlock.environment.digests import DigestMemory, read_regular
from envlock.environment.distributions import distributions, site_packages, torch_build
from envlock.environment.inventory import Drift, drift, drifted
from envlock.environment.seal import FOLDER, Seal
from envlock.environment.sealing import OWN, Stock, take_stock
from envlock.environment.tree import scan
from envlock.errors import StoreError
from envlock.lock.document import Lock
from envlock.verify import facts as facts_module
from envlock.verify.facts import Binary, Facts, Ptxas
from envlock.verify.libraries import LibraryMemory, Read, exported, is_assembler, is_shared
from envlock.verify.permissions import Fault, everywhere, vital
from envlock.verify.records import Records, read_records
from envlock.verify.subject import Subject
from envlock.verify.surroundings import read_surroundings
from envlock.verify.tree import Walked, leading_out, libraries_of, read_all, walk

_EXEC = re.compile(rb"'''exec' (?:'([^']+)'|\"?([^\" ]+))")  # single quotes where the path has a space


def inspect_environment(
    prefix: Path, stock: Stock, cache: Path, lock_digest: str, judge: Callable[[Facts], None] = lambda _: None
) -> Mapping[str, bytes]:
    """Return the files of the seal that hold what an environment's own files say: a hook of `environment.build`.

    The same wheels and the same bytes say the same, so facts are kept by both and read once for all generations.
    `judge` may raise: then nothing is sealed.
    """
    site = site_packages(prefix)
    kept = cache / "facts" / _facts_key(stock, lock_digest)
    try:
        facts = replace(facts_module.load(kept.read_bytes()), scripts=tuple(_scripts(prefix / "bin")))
    except (OSError, ValueError, KeyError, TypeError):
        below = f"{site.relative_to(prefix)}/"
        paths = (entry.path[len(below) :] for entry in stock.entries if entry.path.startswith(below))
        facts = read_facts(prefix, site, cache, paths, sealed=True)
        with contextlib.suppress(StoreError):
            disk.write_atomically(kept, facts_module.dump(facts))
    judge(facts)
    return {facts_module.FILE: facts_module.dump(facts)}


def _facts_key(stock: Stock, lock_digest: str) -> str:
    own = [(entry.path, entry.sha256) for entry in stock.of(OWN)]
    return hashlib.sha256(repr((facts_module.FORMAT, __version__, lock_digest, stock.digest, own)).encode()).hexdigest()


def read_sealed_facts(prefix: Path) -> Facts | None:
    """Return the facts in a generation's seal, or None when it holds none that can be read."""
    try:
        return facts_module.load(read_regular(prefix / FOLDER / facts_module.FILE))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_facts(
    prefix: Path, site: Path, cache: Path | None, paths: Iterable[str] | None = None, *, sealed: bool = False
) -> Facts:
    """Read everything the static checks judge from an environment's files; nothing of it is imported or run.

    `paths` are the files below site-packages when they are known; else the folder is walked. With `sealed`, whoever
    vouches for the environment vouches for every `.pth` file in it; else a distribution must have recorded it.
    """
    memory = LibraryMemory(cache)
    records = read_records(os.fspath(site))
    walked = walk(os.fspath(site)) if paths is None else Walked(list(paths), [])
    reads = read_all(os.fspath(site), walked.files, memory)
    memory.save()
    return Facts(
        python=site.parent.name.removeprefix("python"),
        torch=torch_build(site),
        installed=records.installed,
        binaries=_binaries(os.fspath(site), reads, records),
        libraries=libraries_of(reads, records.owners),
        claims=records.claims,
        outside=leading_out(prefix, os.fspath(site), walked.links, records.owners),
        ptxas=tuple(Ptxas(path, read.release) for path, read in reads.items() if is_assembler(path.rpartition("/")[2])),
        scripts=tuple(_scripts(prefix / "bin")),
        modules=tuple(
            sorted({name.split(".", 1)[0] for name in os.listdir(site) if not name.endswith((".dist-info", ".pth"))})
        ),
        path_files=tuple(
            sorted(name for name in os.listdir(site) if name.endswith(".pth") and (sealed or name in records.owners))
        ),
        jit=(site / "triton" / "backends" / "nvidia").is_dir(),
    )


def _binaries(site: str, reads: Mapping[str, Read], records: Records) -> tuple[Binary, ...]:
    shared = {path: read for path, read in reads.items() if read.machine or is_shared(path.rpartition("/")[2])}
    wanted = {symbol for read in shared.values() for symbol in read.torch_symbols}
    offered = exported([f"{site}/{path}" for path in shared if path.startswith("torch/lib/")], wanted)
    missing = wanted - offered
    # A package may define names in torch's namespaces for itself, in the library next door.
    users = {path for path, read in shared.items() if missing.intersection(read.torch_symbols)}
    tops = {path.split("/", 1)[0] for path in users}
    for top in tops:
        beside = [f"{site}/{path}" for path in shared if path.startswith(f"{top}/")]
        missing -= exported(beside, missing)
    found = []
    for path, read in shared.items():
        lacking = [symbol.decode("latin-1") for symbol in read.torch_symbols if symbol in missing]
        found.append(
            Binary(
                path,
                records.owners.get(path, ""),
                read.needed,
                read.search,
                read.glibc,
                tuple(lacking[:5]),
                len(lacking),
                read.problem,
                read.machine,
            )
        )
    return tuple(found)


def _scripts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (script, its interpreter) of a bin folder; an exec stands where `#!` would be too long."""
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
        path = folder / name
        try:
            head = b"" if path.is_symlink() else read_regular(path, 2048)
        except OSError:
            continue
        if head.startswith(b"#!"):
            first = head.split(b"\n", 1)[0][2:].strip()
            said = _EXEC.search(head) if first == b"/bin/sh" else None
            if said or b"python" in first:
                yield f"bin/{name}", os.fsdecode((said[1] or said[2]) if said else first)


def site_of(prefix: Path) -> Path:
    """Return the site-packages folder of a prefix. Raises StoreError when it holds no Python environment."""
    try:
        return site_packages(prefix)
    except FileNotFoundError as error:
        raise StoreError("no Python environment here", where=str(prefix), found=str(error)) from error


def read_subject(
    prefix: Path,
    *,
    profile: Profile | None,
    lock: Lock | None,
    lock_digest: str | None,
    seal: Seal | None,
    deep: bool,
    driver: str | None,
    cache: Path | None,
) -> Subject:
    """Return everything the static checks need: from the seal while nothing differs from it, else from the files.

    Raises StoreError when the prefix holds no environment, a seal without an inventory, or what cannot be read at all.
    """
    try:
        return _read_subject(prefix, profile, lock, lock_digest, seal, driver, cache, deep=deep)
    except PermissionError as error:
        raise StoreError(
            "an environment that this user cannot read cannot be judged",
            where=str(error.filename).rstrip("/"),
            found=str(error.strerror),
            hint="chmod it back, or envlock sync --rebuild; or verify as the user who made it",
        ) from error


def _read_subject(
    prefix: Path,
    profile: Profile | None,
    lock: Lock | None,
    lock_digest: str | None,
    seal: Seal | None,
    driver: str | None,
    cache: Path | None,
    *,
    deep: bool,
) -> Subject:
    site = site_of(prefix)
    overlaps = {} if profile is None else profile.overlaps
    differing = _differing(prefix, site, sealed=seal is not None, deep=deep, overlaps=overlaps)
    edited = store.edited_files(seal, prefix, deep=deep) if seal is not None else ()
    trusted = seal is not None and not differing and facts_module.FILE not in edited
    sealed = read_sealed_facts(prefix) if trusted else None
    facts = sealed or read_facts(prefix, site, None if deep else cache, sealed=seal is not None)
    return Subject(
        prefix=os.fspath(prefix),
        site=os.fspath(site),
        profile=profile,
        lock=lock,
        lock_digest=lock_digest,
        seal=seal,
        facts=facts,
        around=read_surroundings(prefix, site, differing or ()),
        drift=differing,
        seal_edited=edited,
        faults=_faults(prefix, site, facts, every=deep or bool(differing)),
        real=os.path.realpath(prefix),
        deep=deep,
        driver=driver,
    )


def _faults(prefix: Path, site: Path, facts: Facts, *, every: bool) -> tuple[Fault, ...]:
    scripts = (script for script, _ in facts.scripts)
    found = list(vital(prefix, site, scripts, (binary.path for binary in facts.binaries)))
    if every:
        told = {fault.path for fault in found}
        found += [fault for fault in everywhere(prefix) if fault.path not in told]
    return tuple(found)


def _differing(
    prefix: Path, site: Path, *, sealed: bool, deep: bool, overlaps: Mapping[str, tuple[str, ...]]
) -> tuple[Drift, ...] | None:
    if not sealed:
        return _unrecorded(prefix, site, overlaps) if deep else None
    return tuple(drift(prefix, deep=True) if deep else drifted(prefix))


def _unrecorded(prefix: Path, site: Path, overlaps: Mapping[str, tuple[str, ...]]) -> tuple[Drift, ...]:
    """Return how an environment without a seal differs from what its own distributions recorded, by hashing."""
    found = tuple(distributions(site))
    stock = take_stock(prefix, site, found, scan(prefix, site), DigestMemory(prefix / "no-such-folder"), overlaps)
    claimed: dict[str, set[str]] = {}
    for record in (record for distribution in found for record in distribution.records):
        claimed.setdefault(f"{site.relative_to(prefix)}/{record.path}", set()).add(record.sha256)
    undecided = {item.path for item in stock.damage if "also claimed by" in item.detail}
    there = {entry.path: entry.sha256 for entry in stock.entries if entry.path in undecided}
    return tuple(
        Drift(item.path, item.package, "missing" if item.detail == "missing" else "changed", item.detail)
        for item in stock.damage
        if "also claimed by" not in item.detail
        # Whose bytes are wanted nobody said (files.one-owner tells): either's are what a distribution recorded.
        and there.get(item.path) not in claimed.get(item.path, ())
    )
