"""`envlock export`: a lock in other tools' formats."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from envlock import disk
from envlock.cli import context
from envlock.review.exports import FORMATS
from envlock.workflows import export as workflow

_PYLOCK_NAME = re.compile(r"pylock(?:\.[^.]+)?\.toml")


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="pylock", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.pass_context
def export(ctx: click.Context, name: str, form: str, output: Path | None) -> None:
    """Write a lock as PEP 751 pylock, hashed requirements, constraints or CycloneDX.

    A pylock names a URL for each file: they are looked up where this machine's indexes are.

    Example: envlock export sglang-cu130 --format requirements -o requirements.txt
    """
    text = workflow.export(context.layout(ctx), name, form, os.environ)
    if output is None:
        click.echo(text, nl=False)
    else:
        disk.write_atomically(output, text)
        click.echo(f"wrote {output}", err=True)
        if form == "pylock" and not _PYLOCK_NAME.fullmatch(output.name):
            click.echo("  uv and pip take a pylock by its name: pylock.toml, or pylock.NAME.toml (PEP 751)", err=True)
