"""Building a generation: beside whatever is current, at its final path, sealed last. Nothing before it is touched."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envlock import __version__, disk
from envlock.declare.profile import Profile, launch_inputs
from envlock.environment import bytecode, inventory, links, modes, origin, seal, store
from envlock.environment.digests import DigestMemory
from envlock.environment.distributions import Distribution, distributions, site_packages, torch_build
from envlock.environment.installation import install_lock
from envlock.environment.interpreter import Interpreter
from envlock.environment.seal import Seal, SealedPackage
from envlock.environment.sealing import Damage, Stock, take_stock
from envlock.errors import RealiseError
from envlock.layout import Layout
from envlock.lock.coherence import same_cuda
from envlock.lock.document import Lock
from envlock.resolve import uv

Say = Callable[[str], None]
SealFiles = Callable[[Path, Stock], Mapping[str, bytes]]
"""Given the prefix and its stock, returns further files for `seal/` (device code, launch stamp)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything a build needs to know; nothing is looked up while it runs."""

    profile: Profile
    lock: Lock
    lock_text: bytes
    lock_digest: str
    urls: Mapping[str, str]
    interpreter: Interpreter
    environ: Mapping[str, str]
    offline: bool = False
    origin: Mapping[str, str] = field(default_factory=dict)
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    """Relative path -> content: the guard and the pip that answers truthfully."""
    seal_files: Sequence[SealFiles] = ()


def build(layout: Layout, plan: Plan, *, say: Say = lambda _: None) -> Seal:
    """Build and seal one generation and return its seal; `current` is not moved here.

    Raises RealiseError, IndexFault, StoreError, ToolMissing; whatever happens, the half-built folder is removed, and
    what a kill leaves is removed by the next build (it carries no seal).
    """
    name = plan.profile.name
    generation = store.next_generation(layout, name, plan.lock_digest)
    prefix = layout.generation(name, generation)
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        return _build(layout, plan, prefix, generation, say)
    except BaseException:
        disk.remove_tree(prefix)
        raise


def _build(layout: Layout, plan: Plan, prefix: Path, generation: str, say: Say) -> Seal:
    how = links.choose(plan.profile.links, uv.cache_dir(plan.environ), layout.home)
    uv.make_venv(prefix, plan.interpreter.path, environ=plan.environ)
    say(f"installing {len(plan.lock.packages)} packages ({how})")
    site = site_packages(prefix)
    code = bytecode.ByteCode(prefix, site, python=plan.interpreter.version, cache=layout.cache, environ=plan.environ)
    digests = _digests(plan)
    memory = DigestMemory(layout.cache)
    with _collector_off(), ThreadPoolExecutor(2) as beside:
        _install(prefix, plan, how=how, project=layout.project, say=say)
        _write_extras(prefix, plan.extra_files)
        say("checking every file against its wheel")
        linking = beside.submit(code.link_cached, digests.values())
        walking = beside.submit(inventory.scan, prefix)
        found = tuple(distributions(site))
        tree = walking.result()
        modes.restore(os.fspath(prefix), ((path, found.mode) for path, found in tree.files.items()))
        linking.result()
        folders = beside.submit(inventory.folders, prefix)  # again: linking byte code has changed them
        stock = take_stock(prefix, site, found, tree, memory, plan.profile.overlaps)
        if stock.damage:
            found, stock = _mend(prefix, plan, stock.damage, how=how, project=layout.project, memory=memory, say=say)
            code.link_cached(digests.values())
            folders = beside.submit(inventory.folders, prefix)
        # Only now: byte code is kept by the wheel's hash, so it may be compiled from checked sources alone.
        sources = _sources(digests, found, os.path.relpath(site, prefix), stock)
        built_here = sources.keys() - set(digests.values())
        code.link_cached(built_here)
        if code.compile_missing(sources, say) or built_here:
            folders = beside.submit(inventory.folders, prefix)
        made = inventory.byte_code(prefix, memory)
        below = f"{os.path.relpath(site, prefix)}/"
        edited = code.edited(sources, {entry.path.removeprefix(below): entry.sha256 for entry in made})
        if edited:
            say(f"compiling anew: byte code of {len(edited)} packages was edited in the cache")
            code.forget(edited)
            code.compile_missing(edited, say)
            folders = beside.submit(inventory.folders, prefix)
            made = inventory.byte_code(prefix, memory)
        stock = replace(stock, tree=stock.tree._replace(folders=folders.result()))
        memory.save()
        return seal_tree(plan, prefix, generation, stock, how, made)


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the cyclic collector still for the block: 80,000 records make it search for garbage that is not there."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _install(prefix: Path, plan: Plan, *, how: str, project: Path, say: Say, names: Sequence[str] = ()) -> None:
    packages = [p for p in plan.lock.packages if not names or p.name in names]
    # uv installs side by side, so of two packages with one file either may win: winners go in last, by themselves
    winners = [p for p in packages if p.name in plan.profile.overlaps]
    for some in ([p for p in packages if p not in winners], winners):
        if some:
            install_lock(
                prefix,
                plan.lock,
                some,
                plan.urls,
                project_root=project,
                links=links.uv_mode(how),
                offline=plan.offline,
                environ=plan.environ,
                fresh=names,
                on_step=say,
            )


def _digests(plan: Plan) -> dict[str, str]:
    """Return distribution -> the hash its byte code is kept under: a wheel's own, or of envlock's own its RECORD's.

    In the order of linking: of two packages with one file, the one whose bytes are wanted comes last.
    """
    wheels = [package for package in plan.lock.packages if package.artifacts and package.artifacts[0].is_wheel]
    wheels.sort(key=lambda package: package.name in plan.profile.overlaps)
    digests = {package.name: package.artifacts[0].sha256 for package in wheels}
    for path, content in plan.extra_files.items():
        folder, _, name = path.rpartition("/")
        if name == "RECORD" and folder.endswith(".dist-info"):
            stem = folder.rpartition("/")[2].removesuffix(".dist-info")
            digests[canonicalize_name(stem.rpartition("-")[0])] = hashlib.sha256(content).hexdigest()
    return digests


def _sources(
    digests: Mapping[str, str], installed: Sequence[Distribution], site: str, stock: Stock
) -> dict[str, list[str]]:
    """Return digest -> Python files below `site` (relative to the prefix) that are as that digest says.

    A wheel's hash names its byte code only where every file is the wheel's own. What was built here, which one source
    can be in two ways, and what another package lies over, is named by the files that are there.
    """
    there = {entry.path: entry.sha256 for entry in stock.entries}
    sources: dict[str, list[str]] = {}
    for distribution in installed:
        every = [one for one in distribution.records if one.path.endswith(".py") and not one.path.startswith("..")]
        own = [one for one in every if not one.sha256 or there.get(f"{site}/{one.path}") == one.sha256]
        if not own:
            continue
        digest = digests.get(distribution.name)
        if digest is None or len(own) != len(every):
            held = repr(sorted((one.path, one.sha256) for one in own))
            digest = hashlib.sha256(held.encode()).hexdigest()
        sources[digest] = [one.path for one in own]
    return sources


def _mend(
    prefix: Path,
    plan: Plan,
    damage: Sequence[Damage],
    *,
    how: str,
    project: Path,
    memory: DigestMemory,
    say: Say,
) -> tuple[tuple[Distribution, ...], Stock]:
    """Fetch damaged packages anew, once: a file edited through a hard link has changed uv's cache itself."""
    overlaps = [item for item in damage if "also claimed by" in item.detail]
    if overlaps:
        raise RealiseError(
            "two packages install one file with different bytes; the last one would win",
            where=overlaps[0].path,
            found=f"{overlaps[0].package}: {overlaps[0].detail}",
            hint='`exclude` one of them, or say whose bytes are wanted: [overlaps] WINNER = ["LOSER"]; then lock again',
            details=[f"{item.path}: {item.package}, {item.detail}" for item in overlaps[:8]],
        )
    names = sorted({item.package for item in damage if item.package})
    if plan.offline:
        raise _still_damaged(damage, "run it once without --offline, so that they can be fetched anew")
    say(f"mending uv's cache: {', '.join(names)} (a file was edited in place)")
    uv.clean_cache(names, environ=plan.environ)
    _install(prefix, plan, how=how, project=project, say=say, names=names)
    site = site_packages(prefix)
    found = tuple(distributions(site))
    stock = take_stock(prefix, site, found, inventory.scan(prefix), memory, plan.profile.overlaps)
    if stock.damage:
        raise _still_damaged(stock.damage, "the index may serve a broken wheel: compare its RECORD with its files")
    return found, stock


def _still_damaged(damage: Sequence[Damage], hint: str) -> RealiseError:
    return RealiseError(
        "installed files are not what their packages recorded",
        where=damage[0].path,
        expected="every file as its wheel's RECORD says",
        found=f"{damage[0].package}: {damage[0].detail}",
        hint=hint,
        details=[f"{item.package}: {item.path}: {item.detail}" for item in damage[:8]],
    )


def _write_extras(prefix: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        target = prefix / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a hard link into uv's cache: never written through
        target.write_bytes(content)
        if path.startswith("bin/"):
            target.chmod(0o755)


def seal_tree(
    plan: Plan,
    prefix: Path,
    generation: str,
    stock: Stock,
    how: str,
    byte_code: Sequence[inventory.Entry] = (),
) -> Seal:
    """Write the seal of a finished tree, by rename; before it the prefix is nothing, after it an environment."""
    site = site_packages(prefix)
    torch = torch_build(site)
    declared = plan.profile.torch
    if declared is not None and (torch is None or not same_cuda(declared.cuda, torch.cuda)):
        raise RealiseError(
            "the installed torch is not the declared build",
            where=f"{site.relative_to(prefix)}/torch/version.py",
            expected=f"CUDA {declared.cuda}",
            found="no torch" if torch is None else f"torch {torch.version}, CUDA {torch.cuda}",
            hint=f"envlock lock --upgrade-package torch {plan.profile.name}",
        )
    made = Seal(
        profile=plan.profile.name,
        generation=generation,
        lock_digest=plan.lock_digest,
        profile_digest=plan.lock.profile_digest,
        environment_digest=stock.digest,
        prefix=str(prefix),
        python=plan.interpreter.version,
        base_python=str(plan.interpreter.path),
        glibc=plan.lock.glibc,
        torch=torch,
        declared=launch_inputs(plan.profile),
        driver_floor=None if plan.lock.torch is None else plan.lock.torch.driver_floor,
        packages=tuple(
            SealedPackage(
                name=package.name,
                version=package.version,
                index=package.index,
                sha256=package.artifacts[0].sha256 if package.artifacts else "",
                files=stock.counts.get(package.name, (0, 0))[0],
                bytes=stock.counts.get(package.name, (0, 0))[1],
            )
            for package in plan.lock.packages
        ),
        links=how,
        files=len(stock.entries),
        bytes=stock.bytes,
        created=origin.now(),
        envlock=__version__,
        uv=uv.version(),
        origin=plan.origin,
    )
    beside = prefix / f".{seal.FOLDER}.part"
    beside.mkdir()
    files: dict[str, bytes] = {
        inventory.FILE: inventory.dump(stock.entries).encode("utf-8", "surrogateescape"),
        inventory.BYTE_CODE: inventory.dump(byte_code).encode("utf-8", "surrogateescape"),
        "lock.toml": plan.lock_text,
        "lease": b"",
    }
    for further in plan.seal_files:
        files.update(further(prefix, stock))
    for file, content in files.items():
        beside.joinpath(file).write_bytes(content)
    made = replace(made, digests=seal.digests_of(files))
    disk.write_atomically(beside / "seal.json", seal.dump(made))
    os.rename(beside, prefix / seal.FOLDER)
    return made
