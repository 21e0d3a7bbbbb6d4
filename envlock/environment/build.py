"""Building a generation: beside whatever is current, at its final path, sealed last. Nothing before it is touched."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envlock import __version__, disk
from envlock.declare.profile import Profile, launch_inputs
from envlock.environment import bytecode, inventory, links, modes, origin, parts, seal, stamp, store, tree
from envlock.environment.digests import DigestMemory
from envlock.environment.distributions import Distribution, distributions, site_packages, torch_build
from envlock.environment.installation import install_lock
from envlock.environment.interpreter import Interpreter
from envlock.environment.parts import PartMemory
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
    memory, kept = DigestMemory(layout.cache), PartMemory(layout.cache)
    with _collector_off(), ThreadPoolExecutor(2) as beside:
        _install(prefix, plan, how=how, project=layout.project, say=say)
        _write_extras(prefix, plan.extra_files)
        say("checking every file against its wheel")
        linking = beside.submit(_link, code, digests, plan.profile.overlaps)
        walking = beside.submit(tree.scan, prefix, site)
        found = tuple(distributions(site))
        claimed = parts.claims(found)
        walked = walking.result()
        modes.restore(os.fspath(prefix), walked.odd())
        stock = take_stock(prefix, site, found, walked, memory, plan.profile.overlaps, kept=kept, claimed=claimed)
        edited = linking.result()
        if stock.damage:
            found, stock = _mend(prefix, plan, stock.damage, how=how, project=layout.project, memory=memory, say=say)
            edited |= _link(code, digests, plan.profile.overlaps)
        # Only now: byte code is kept by the wheel's hash, so it may be compiled from checked sources alone.
        sources = [bytecode.Source.of(one, digests.get(one.name), stock.lost.get(one.name, ())) for one in found]
        edited |= code.link_cached({source.digest for source in sources} - set(digests.values()))
        spoilt = [source for source in sources if source.digest in edited]
        if spoilt:
            say(f"compiling anew: byte code of {len(spoilt)} packages was edited in the cache")
            code.forget(spoilt)
        code.compile_missing(sources, say)
        # Linking byte code has changed the times of folders.
        stock = replace(stock, folders=tree.again(prefix, stock.folders))
        memory.save()
        return seal_tree(plan, prefix, generation, stock, how, "".join(map(code.listed, sources)))


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


def _link(code: bytecode.ByteCode, digests: Mapping[str, str], overlaps: Container[str]) -> set[str]:
    """Link what the cache has; of two packages with one file, the one whose bytes are wanted comes last."""
    edited = code.link_cached(digest for name, digest in digests.items() if name not in overlaps)
    return edited | code.link_cached(digest for name, digest in digests.items() if name in overlaps)


def _digests(plan: Plan) -> dict[str, str]:
    """Return distribution -> the hash its byte code is kept under: a wheel's own, or of envlock's own its RECORD's."""
    wheels = [package for package in plan.lock.packages if package.artifacts and package.artifacts[0].is_wheel]
    digests = {package.name: package.artifacts[0].sha256 for package in wheels}
    for path, content in plan.extra_files.items():
        folder, _, name = path.rpartition("/")
        if name == "RECORD" and folder.endswith(".dist-info"):
            stem = folder.rpartition("/")[2].removesuffix(".dist-info")
            digests[canonicalize_name(stem.rpartition("-")[0])] = hashlib.sha256(content).hexdigest()
    return digests


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
    stock = take_stock(prefix, site, found, tree.scan(prefix, site), memory, plan.profile.overlaps)
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
    byte_code: str = "",
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
        files=stock.files,
        bytes=stock.size,
        created=origin.now(),
        envlock=__version__,
        uv=uv.version(),
        origin=plan.origin,
    )
    beside = prefix / f".{seal.FOLDER}.part"
    beside.mkdir()
    files: dict[str, bytes] = {
        inventory.FILE: stock.inventory,
        inventory.BYTE_CODE: byte_code.encode("utf-8", "surrogateescape"),
        stamp.FILE: stock.stamp,
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
