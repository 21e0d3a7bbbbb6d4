"""Syncing: lock -> sealed generation -> current, once, whoever else is syncing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock import disk, system
from envlock.declare.files import load_profile
from envlock.declare.profile import Profile
from envlock.environment import build, interpreter, origin, store
from envlock.environment.distributions import site_packages, torch_build
from envlock.environment.seal import Seal
from envlock.environment.sealing import Stock
from envlock.errors import CoverageDiffers, EnvlockError, LockStale, StoreError
from envlock.launch import guard_install, shim, ticket
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.lock.files import load_lock
from envlock.lock.freshness import compare
from envlock.resolve.indexes import load_index_map
from envlock.verify.coverage import otherwise, recorded
from envlock.verify.facts import Facts
from envlock.verify.files import inspect_environment

Say = Callable[[str, str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Synced:
    """What syncing one profile came to."""

    name: str
    generation: str
    built: bool
    """False: it was already there, and nothing was started."""
    seal: Seal | None = None
    python: str = ""
    """Which interpreter was chosen, and why; empty when nothing was built."""
    error: EnvlockError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to sync."""

    offline: bool = False
    rebuild: bool = False


def sync_all(
    layout: Layout,
    names: Sequence[str],
    options: Options,
    environ: Mapping[str, str],
    say: Say = lambda _name, _step: None,
) -> tuple[Synced, ...]:
    """Sync profiles side by side; one that fails does not keep the others from it."""

    def one(name: str) -> Synced:
        try:
            return sync_one(layout, name, options, environ, say)
        except EnvlockError as error:
            return Synced(name=name, generation="", built=False, error=error)

    if len(names) == 1:
        return (one(names[0]),)
    return tuple(system.side_by_side(one, names, max(1, min(len(names), 4))))


def sync_one(layout: Layout, name: str, options: Options, environ: Mapping[str, str], say: Say) -> Synced:
    """Realise a profile's lock and make it current.

    With nothing to do no child is started and nothing is resolved. Of two syncs of one profile at once, one builds and
    the other waits and finds it done. Raises LockStale, RealiseError, IndexFault, StoreError, InterpreterNotFound.
    """
    profile = load_profile(layout, name)
    lock, digest = load_lock(layout, name)
    require_fresh(profile, lock)
    if not options.rebuild:
        there = _already(layout, name, digest)
        if there is not None:
            write_shim(layout, name)  # envlock itself may have moved since
            return there
    with disk.locked(layout.building(name), on_wait=lambda: say(name, "another sync of it is running; waiting")):
        if not options.rebuild:
            there = _already(layout, name, digest)
            if there is not None:
                return there
            earlier = _earlier(layout, name, digest)
            if earlier is not None:
                return _switch(layout, name, earlier, say)
        for left in store.unsealed(layout, name):
            say(name, f"removing what an interrupted sync left: {left.name}")
            disk.remove_tree(left)
        chosen = interpreter.find(profile.python, environ)
        say(name, f"Python {chosen.version} ({chosen.reason}: {chosen.path})")
        plan = _plan(layout, profile, lock, digest, chosen, options, environ)
        seal = build.build(layout, plan, say=lambda step: say(name, step))
        _enter(layout, name, seal)
    return Synced(
        name=name,
        generation=seal.generation,
        built=True,
        seal=seal,
        python=f"{chosen.version} ({chosen.reason})",
    )


def require_fresh(profile: Profile, lock: Lock) -> None:
    """Raise LockStale, naming what changed, when the lock does not answer the profile."""
    changes = compare(profile, lock)
    if changes:
        raise LockStale(
            "the lock no longer answers its profile",
            where=f"locks/{profile.name}.toml",
            hint=f"envlock lock {profile.name}",
            details=[str(change) for change in changes],
        )


def _already(layout: Layout, name: str, digest: str) -> Synced | None:
    """Return the current generation when it is this lock's and still stands on its interpreter."""
    generation = store.current_generation(layout, name)
    if generation is None:
        return None
    seal = _usable(layout, name, generation, digest)
    return None if seal is None else Synced(name=name, generation=generation, built=False, seal=seal)


def _usable(layout: Layout, name: str, generation: str, digest: str) -> Seal | None:
    prefix = layout.generation(name, generation)
    try:
        seal = store.read_seal(prefix)
    except StoreError:
        return None
    right = seal.lock_digest == digest and store.lies_where_built(seal, prefix)
    right = right and os.access(seal.base_python, os.X_OK)
    return seal if right else None


def _earlier(layout: Layout, name: str, digest: str) -> Seal | None:
    """Return an earlier generation of exactly this lock: going back to an old lock needs no building."""
    for generation in reversed(store.generations(layout, name)):
        if generation != store.current_generation(layout, name):
            seal = _usable(layout, name, generation, digest)
            if seal is not None:
                return seal
    return None


def _switch(layout: Layout, name: str, seal: Seal, say: Say) -> Synced:
    say(name, f"generation {seal.generation} was built from this very lock")
    _enter(layout, name, seal)
    return Synced(name=name, generation=seal.generation, built=False, seal=seal)


def _plan(
    layout: Layout,
    profile: Profile,
    lock: Lock,
    digest: str,
    chosen: interpreter.Interpreter,
    options: Options,
    environ: Mapping[str, str],
) -> build.Plan:
    names = ("pypi", *(index.name for index in profile.indexes))
    return build.Plan(
        profile=profile,
        lock=lock,
        lock_text=layout.lock(profile.name).read_bytes(),
        lock_digest=digest,
        urls=load_index_map(names, environ).for_profile(profile),
        interpreter=chosen,
        environ=environ,
        offline=options.offline,
        origin=origin.of(layout.project),
        extra_files=guard_install.files(_site(chosen), has_pip=lock.package("pip") is not None),
        seal_files=[
            launch_files,
            lambda prefix, stock: inspect_environment(
                prefix, stock, layout.cache, digest, lambda facts: require_locked_code(profile, lock, facts)
            ),
        ],
    )


def require_locked_code(profile: Profile, lock: Lock, facts: Facts) -> None:
    """Raise CoverageDiffers when the built files hold other device code than the lock says of them."""
    if profile.gpu is None:
        return
    capability = profile.gpu.compute_capability
    wrong = otherwise(recorded(lock, capability, facts.overlaid), facts.libraries, capability)
    if not wrong:
        return
    told = [(item.package, *item.told(capability)) for item in wrong]
    name, expected, found = told[0]
    raise CoverageDiffers(
        f"{name} holds other device code than its lock says; its files are the locked ones by their hashes",
        where=f"locks/{profile.name}.toml: package {name}: device-code",
        expected=f"{expected} (the lock)",
        found=f"{found} (the installed files)",
        hint=f"git checkout locks/{profile.name}.toml if it was edited; else read the wheels anew: "
        f"envlock lock --inspect {profile.name}, review, then sync",
        details=[f"{package}: {locked} locked; {there} installed" for package, locked, there in told[1:8]],
    )


def _site(chosen: interpreter.Interpreter) -> str:
    return f"lib/python{'.'.join(chosen.version.split('.')[:2])}/site-packages"


def launch_files(prefix: Path, stock: Stock) -> dict[str, bytes]:
    """Return what the guard knows of its environment."""
    torch = torch_build(site_packages(prefix))
    known = guard_install.record(
        profile=prefix.parent.name,
        generation=prefix.name,
        prefix=str(prefix),
        digest=stock.digest,
        cuda=None if torch is None else torch.cuda,
    )
    return {"guard": known}


def write_shim(layout: Layout, name: str) -> None:
    """Write `.envlock/bin/NAME`, which launches through this very envlock."""
    text = shim.text(
        name,
        project=str(layout.project.resolve()),  # whoever comes through a link writes the same shim
        home=str(layout.home.resolve()),
        interpreter=sys.executable,
    )
    path = layout.shim(name)
    if not path.is_file() or path.read_text() != text:
        disk.write_atomically(path, text, mode=0o755)


def _enter(layout: Layout, name: str, seal: Seal) -> None:
    """Make a sealed generation current and write it down."""
    before = store.current_generation(layout, name)
    store.point_current(layout, name, seal.generation)
    ticket.forget(str(layout.environments(name)))
    write_shim(layout, name)
    store.append_history(
        layout,
        name,
        {
            "event": "synced",
            "generation": seal.generation,
            "before": before,
            "lock_digest": seal.lock_digest,
            "environment_digest": seal.environment_digest,
            "time": origin.now(),
            **seal.origin,
        },
    )
