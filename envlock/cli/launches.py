"""`envlock launches`: what was launched, by whom, from which environment."""

from __future__ import annotations

import json
from pathlib import Path

import click

from envlock.cli import context, show
from envlock.launch import journal


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-n", "count", default=20, show_default=True, help="How many of the latest; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def launches(ctx: click.Context, file: Path | None, count: int, as_json: bool) -> None:
    """List the launches in FILE, or all of this project that were written down (`run --log`, ENVLOCK_LOG).

    Example: envlock launches launches.jsonl
    """
    chosen = file or context.layout(ctx).launches
    found = list(journal.read(chosen))
    found = found[-count:] if count > 0 else found
    if as_json:
        click.echo(json.dumps({"launches": found}, indent=1))
        return
    if not found:
        click.echo(f"no launch is written down in {chosen}; envlock run --log {chosen} NAME -- ...", err=True)
        return
    rows = [
        tuple(str(entry.get(key, "")) for key in ("time", "user", "profile", "generation", "verdict", "pid", "command"))
        for entry in found
    ]
    click.echo(show.columns(rows, ("TIME", "USER", "PROFILE", "GENERATION", "VERDICT", "PID", "COMMAND")))
