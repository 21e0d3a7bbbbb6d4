"""`envlock import`: another tool's lock into a profile and a lock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from envlock.cli import context, show
from envlock.workflows import importing as workflow


@click.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as", "name", required=True, metavar="NAME", help="Name of the profile to write.")
@click.option("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}", show_default=True)
@click.pass_context
def import_(ctx: click.Context, file: Path, name: str, python: str) -> None:
    """Read uv.lock, pylock.toml or hashed requirements into a profile and a lock with the same versions and bytes.

    Example: envlock import uv.lock --as trainer --python 3.11
    """
    with show.steps() as say:
        done = workflow.import_lock(context.layout(ctx), file, name, python, os.environ, say)
    click.echo(
        f"{click.style(name, bold=True)}: {len(done.adopted.direct)} asked for, {len(done.adopted.dependencies)} held; "
        f"{len(done.lock.packages)} packages locked"
    )
    for package, reason in done.adopted.left_out.items():
        click.echo(f"{show.mark('warn')} {package} is left out: it {reason}")
    for line in done.differences:
        click.echo(f"{show.mark('warn')} {line}")
    click.echo(f"  {click.style('next', fg='cyan')}: declare [torch] and [gpu], then envlock lock {name}")
