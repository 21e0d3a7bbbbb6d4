"""`envlock gpus`: which GPU is held by which launch."""

from __future__ import annotations

import json

import click

from envlock.cli import show
from envlock.cli.place import in_place
from envlock.workflows import gpus as workflow


@click.command()
@in_place
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def gpus(as_json: bool) -> None:
    """Show this machine's GPUs and which launch holds each (`envlock run --gpus`).

    Example: envlock gpus
    """
    found = workflow.holdings()
    if as_json:
        rows = [
            {
                "index": item.card.number,
                "uuid": item.card.uuid,
                "name": item.card.name,
                "holder": None if item.holder is None else dict(item.holder),
            }
            for item in found
        ]
        click.echo(json.dumps({"gpus": rows}, indent=1))
        return
    table = [
        (
            str(item.card.number),
            item.card.name,
            str((item.holder or {}).get("profile", "free")),
            str((item.holder or {}).get("pid", "")),
            str((item.holder or {}).get("user", "")),
            str((item.holder or {}).get("time", "")),
        )
        for item in found
    ]
    click.echo(show.columns(table, ("GPU", "NAME", "HELD BY", "PID", "USER", "SINCE"), {"free": "green"}))
