"""Which project and store a command works on: found once, here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from envlock import where
from envlock.errors import EnvlockError, ProjectNotFound
from envlock.layout import Layout


def find_layout(start: Path | None = None) -> Layout:
    """Return the paths of the project at or above `start` (ENVLOCK_PROJECT and ENVLOCK_HOME override).

    Raises ProjectNotFound when no folder with `profiles/` is there.
    """
    found = where.locate(None if start is None else os.fspath(start), os.environ)
    if found is not None:
        return Layout(Path(found[0]), Path(found[1]))
    raise ProjectNotFound(
        "no profiles/ folder here or above",
        where=where.start(None if start is None else os.fspath(start), os.environ),
        hint="cd into the project, or `envlock -C DIR ...`, or `envlock init NAME` to begin one here",
    )


def layout(ctx: click.Context) -> Layout:
    """Return the paths the running command works on."""
    chosen = ctx.find_root().params.get("project")
    return find_layout(Path(chosen) if chosen else None)


def locked_profiles(found: Layout) -> tuple[str, ...]:
    """Return the profiles that have a lock, sorted."""
    if not found.locks.is_dir():
        return ()
    return tuple(sorted(path.stem for path in found.locks.glob("*.toml") if found.profile(path.stem).is_file()))


def is_lockable(found: Layout, name: str) -> bool:
    """Tell whether a profile is a stack of its own; one that is only extended asks for nothing and needs no lock."""
    from envlock.declare.files import load_profile  # late: it brings the packaging library along

    profile = load_profile(found, name)
    return bool(profile.requirements or profile.torch)


def complete_profiles(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete profile names in a shell; silent about anything that is wrong."""
    from envlock.declare.files import profile_names

    try:
        return [name for name in profile_names(layout(ctx)) if name.startswith(incomplete)]
    except EnvlockError:
        return []


def complete_profile_and_files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a profile name first, then files: for words that end in a command."""
    if ctx.params.get(str(parameter.name)):
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name) for name in complete_profiles(ctx, parameter, incomplete)]


def envlock_words(found: Layout | None) -> list[str]:
    """Return the words that start this very envlock from anywhere, for a project if one is given."""
    words = [sys.executable, "-I", "-m", "envlock"]
    return words if found is None else [*words, "-C", str(found.project)]
