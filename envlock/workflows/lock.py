"""Locking: profile -> lock, side by side, writing only what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envlock import disk, system
from envlock.declare.files import load_profile
from envlock.declare.profile import Profile
from envlock.errors import EnvlockError, LockError, LockStale, ResolutionError
from envlock.layout import Layout
from envlock.lock import text
from envlock.lock.document import DeviceCode, Lock, Package
from envlock.lock.files import read_lock
from envlock.lock.freshness import Changed, compare
from envlock.resolve import uv
from envlock.resolve.indexes import load_index_map
from envlock.resolve.resolution import resolve
from envlock.verify.wheels import inspect_lock

Say = Callable[[str, str], None]
"""Called with a profile's name and what is being done for it."""
Inspect = Callable[[Lock, Mapping[str, str]], Mapping[str, DeviceCode]]
"""Given a lock and index URLs, returns the device code of the packages whose wheels are at hand."""


def inspector(layout: Layout, environ: Mapping[str, str]) -> Inspect:
    """Return what reads the device code of a lock's packages out of uv's cache; it downloads nothing."""

    def inspect(lock: Lock, _urls: Mapping[str, str]) -> Mapping[str, DeviceCode]:
        return inspect_lock(lock, uv.cache_dir(environ), layout.cache)

    return inspect


@dataclass(frozen=True, kw_only=True, slots=True)
class Locked:
    """What locking one profile came to."""

    name: str
    changed: bool
    """The lock file's bytes differ (or would, with `write=False`)."""
    before: Lock | None
    after: Lock | None
    reasons: tuple[Changed, ...] = ()
    """Why the old lock no longer answered the profile."""
    error: EnvlockError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to lock."""

    again: bool = False
    """Ask the indexes also where the lock is fresh: what is recorded of its packages is read anew; none moves."""
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    write: bool = True
    inspect: Inspect | None = None
    """Reads device code where wheels are at hand; None: neither device code nor installed sizes are looked for."""


def lock_all(
    layout: Layout,
    names: Sequence[str],
    options: Options,
    environ: Mapping[str, str],
    say: Say = lambda _name, _step: None,
) -> tuple[Locked, ...]:
    """Lock profiles side by side; one that cannot be locked does not keep the others from it."""

    def one(name: str) -> Locked:
        try:
            return lock_one(layout, name, options, environ, say)
        except EnvlockError as error:
            return Locked(name=name, changed=False, before=None, after=None, error=error)

    return tuple(system.side_by_side(one, names, max(1, min(len(names), 4))))


def lock_one(layout: Layout, name: str, options: Options, environ: Mapping[str, str], say: Say) -> Locked:
    """Lock one profile; without a change and without `upgrade` neither uv nor the network is touched.

    Raises ProfileError, ResolutionError, IndexFault, StoreError.
    """
    profile = load_profile(layout, name)
    path = layout.lock(name)
    before = previous_lock(path, name)
    reasons = () if before is None else compare(profile, before)
    asked = options.again or options.upgrade or options.upgrade_packages
    if before is not None and not reasons and not asked:
        return Locked(name=name, changed=False, before=before, after=before)
    after = fresh_lock(layout, profile, before, options, environ, lambda step: say(name, step))
    content = text.dump(after)
    changed = before is None or not path.is_file() or path.read_text() != content
    if changed and options.write:
        disk.write_atomically(path, content)
    return Locked(name=name, changed=changed, before=before, after=after, reasons=reasons)


def previous_lock(path: Path, name: str) -> Lock | None:
    """Return the lock there was, for its pins; one that is damaged or unmerged is no reason not to lock again."""
    try:
        return read_lock(path, name)[0]
    except (LockError, LockStale):
        return None


def fresh_lock(
    layout: Layout,
    profile: Profile,
    before: Lock | None,
    options: Options,
    environ: Mapping[str, str],
    on_step: Callable[[str], None],
) -> Lock:
    """Resolve a profile into a new lock, keeping what it can of `before`, with device code where wheels are at hand."""
    names = ("pypi", *(index.name for index in profile.indexes))
    urls = load_index_map(names, environ).for_profile(profile)
    try:
        made = resolve(
            profile,
            urls,
            project_root=layout.project,
            cache=layout.cache,
            environ=environ,
            previous=before,
            upgrade=options.upgrade,
            upgrade_packages=options.upgrade_packages,
            sizes=options.inspect is not None,
            on_step=on_step,
        )
    except ResolutionError as error:
        raise with_lines(error, layout, profile) from error
    made = keep_inspected(made, before)
    if options.inspect is not None:
        on_step("reading device code")
        codes = options.inspect(made, urls)
        made = replace(
            made, packages=tuple(replace(p, device_code=codes.get(p.name, p.device_code)) for p in made.packages)
        )
    return made


def keep_inspected(made: Lock, before: Lock | None) -> Lock:
    """Return the lock with the device code and sizes already known for unchanged artifacts (same sha256, same code)."""
    if before is None:
        return made

    def kept(package: Package) -> Package:
        old = before.package(package.name)
        if old is None or old.artifacts != package.artifacts:
            return package
        size = old.installed_size if package.installed_size is None else package.installed_size
        return replace(package, device_code=old.device_code, installed_size=size)

    return replace(made, packages=tuple(kept(package) for package in made.packages))


def with_lines(error: ResolutionError, layout: Layout, profile: Profile) -> ResolutionError:
    """Return a resolution error with the profile lines that are involved in it."""
    said = "\n".join(error.details).replace("_", "-").lower()
    lines = []
    for name in (profile.name, *profile.extends):
        path = layout.profile(name)
        content = path.read_text() if path.is_file() else ""
        for number, line in enumerate(content.splitlines(), 1):
            for requirement in (*profile.requirements, *profile.constraints, *profile.overrides):
                package = _leading_name(requirement)
                if f'"{requirement}"' in line and package in said:
                    lines.append(f"profiles/{name}.toml:{number}: {requirement}")
            if profile.torch is not None and "torch" in said and line.startswith("[torch]"):
                lines.append(f"profiles/{name}.toml:{number}: [torch] version = {profile.torch.version!r}")
    if not lines:
        return error
    return ResolutionError(
        error.message,
        where=error.where or f"profiles/{profile.name}.toml",
        expected=error.expected,
        found=error.found,
        hint=error.hint or f"change one of these lines, then `envlock lock {profile.name}`",
        details=[*error.details, "the lines involved:", *(f"  {line}" for line in dict.fromkeys(lines))],
    )


def _leading_name(requirement: str) -> str:
    for position, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "-_."):
            return requirement[:position].replace("_", "-").lower()
    return requirement.replace("_", "-").lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Whether a profile's lock answers it: `fresh`, `stale` or `missing`, with the reasons."""

    name: str
    state: str
    reasons: tuple[str, ...] = ()


def check_one(layout: Layout, name: str) -> State:
    """Judge a lock against its profile from the files alone. Raises ProfileError, LockError (damaged)."""
    profile = load_profile(layout, name)
    if not layout.lock(name).is_file():
        return State(name=name, state="missing", reasons=(f"locks/{name}.toml is not there",))
    changes = compare(profile, read_lock(layout.lock(name), name)[0])
    return State(name=name, state="stale" if changes else "fresh", reasons=tuple(map(str, changes)))


def yanked(lock: Lock | None) -> tuple[Package, ...]:
    """Return the packages whose files their index had withdrawn when they were locked."""
    return () if lock is None else tuple(package for package in lock.packages if package.yanked is not None)


def moves(before: Lock | None, after: Lock) -> list[str]:
    """Return one line for each package that came, went or changed."""
    old = {} if before is None else before.by_name
    lines = []
    for name in sorted({*old, *after.by_name}):
        was, now = old.get(name), after.by_name.get(name)
        if was is None and now is not None:
            lines.append(f"+ {name} {now.version}")
        elif now is None and was is not None:
            lines.append(f"- {name} {was.version}")
        elif was is not None and now is not None and was.version != now.version:
            lines.append(f"~ {name} {was.version} -> {now.version}")
        elif was is not None and now is not None and was.artifacts != now.artifacts:
            lines.append(f"~ {name} {now.version}: another file")
    return lines
