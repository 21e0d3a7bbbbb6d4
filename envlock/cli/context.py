"""Which project and store a command works on: found once, here."""

from __future__ import annotations

import os
from pathlib import Path

import click

from envlock.errors import ProjectNotFound
from envlock.layout import Layout


def find_layout(start: Path | None = None) -> Layout:
    """Return the paths of the project at or above `start` (ENVLOCK_PROJECT and ENVLOCK_HOME override).

    Raises ProjectNotFound when no folder with `profiles/` is there.
    """
    named = os.environ.get("ENVLOCK_PROJECT")
    home = os.environ.get("ENVLOCK_HOME")
    origin = start or (Path(named) if named else Path.cwd())
    for folder in (origin.absolute(), *origin.absolute().parents):
        if (folder / "profiles").is_dir():
            return Layout(folder, Path(home).absolute() if home else None)
    raise ProjectNotFound(
        "no profiles/ folder here or above",
        where=str(origin),
        hint="cd into the project, or `envlock -C DIR ...`, or `envlock init NAME` to begin one here",
    )


def layout(ctx: click.Context) -> Layout:
    """Return the paths the running command works on."""
    chosen = ctx.find_root().params.get("project")
    return find_layout(Path(chosen) if chosen else None)
