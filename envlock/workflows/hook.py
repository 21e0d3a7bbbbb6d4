"""Writing hooks: what a profile gives them, and files that are never silently replaced."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock import disk
from envlock.declare.files import load_profile
from envlock.errors import EnvlockError, UsageError
from envlock.launch.hooks.kind import File, Kind, Target, Unwritable
from envlock.layout import Layout
from envlock.lock.files import load_lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the words asked for, beside kind and profile."""

    folder: Path
    cwd: str | None = None
    user: str | None = None
    no_gpu: bool = False
    each_rank: bool = False
    command: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of one file: `created`, `unchanged` or `replaced`; under a dry run, what would."""

    path: str
    state: str


def files(layout: Layout, kind: Kind, name: str, wish: Wish, envlock: Sequence[str]) -> tuple[File, ...]:
    """Return the files of a hook for a profile.

    Raises UsageError (no such profile, a word that the format cannot hold), LockError, EnvlockError when the locked
    environment lacks what the hook needs.
    """
    gpu = load_profile(layout, name).gpu
    if kind.needs is not None:
        _has(layout, name, kind, kind.needs)
    target = Target(
        name=name,
        project=str(layout.project),
        home=str(layout.home),
        shim=str(layout.shim(name)),
        prefix=str(layout.current(name)),
        envlock=tuple(envlock),
        folder=str(wish.folder),
        cwd=os.path.abspath(wish.cwd) if wish.cwd else str(layout.project),
        gpus=0 if gpu is None else gpu.count,
        no_gpu=wish.no_gpu,
        each_rank=wish.each_rank,
        user=wish.user,
        command=wish.command,
    )
    try:
        return kind.files(target)
    except Unwritable as error:
        raise UsageError(str(error), hint="put the command into a script, and name that") from error


def general(kind: Kind) -> tuple[File, ...]:
    """Return the files of a hook that is the same for every profile."""
    nothing = Target(name="", project="", home="", shim="", prefix="", envlock=(), folder="", cwd="")
    return kind.files(nothing)


def _has(layout: Layout, name: str, kind: Kind, package: str) -> None:
    lock, _ = load_lock(layout, name)
    if not any(locked.name == package for locked in lock.packages):
        raise EnvlockError(
            f"the {kind.name} hook needs {package}, and the environment of {name} does not contain it",
            where=f"locks/{name}.toml",
            expected=package,
            found=f"{len(lock.packages)} other packages",
            hint=f'add "{package}" to requirements in profiles/{name}.toml, then: envlock lock {name}; '
            f"envlock sync {name}",
        )


def write(wanted: Sequence[tuple[Path, File]], *, force: bool, dry_run: bool) -> tuple[Written, ...]:
    """Write files, each atomically; all or none when one is in the way.

    Raises UsageError naming every file that is there with another content, unless `force`.
    """
    states = [(path, file, _state(path, file)) for path, file in wanted]
    different = [str(path) for path, _, state in states if state == "replaced"]
    if different and not force and not dry_run:
        raise UsageError(
            "not replaced: " + ", ".join(different),
            expected="no such file, or what would be written",
            found="another content",
            hint="look at it with --dry-run; --force replaces it; -o writes elsewhere",
        )
    for path, file, state in states:
        if not dry_run and state != "unchanged":
            disk.write_atomically(path, file.text, mode=0o755 if file.executable else None)
    return tuple(Written(path=str(path), state=state) for path, _, state in states)


def _state(path: Path, file: File) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="-o FOLDER/ puts the file into it")
    try:
        same = path.read_bytes() == file.text.encode() and (not file.executable or os.access(path, os.X_OK))
    except FileNotFoundError:
        return "created"
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return "unchanged" if same else "replaced"
