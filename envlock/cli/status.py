"""`envlock status` and `envlock list`."""

from __future__ import annotations

import json

import click

from envlock.cli import context, show
from envlock.cli.place import in_place
from envlock.declare.files import load_profile, profile_names
from envlock.environment.installation import size
from envlock.workflows import status as workflow

_COLOURS = {
    "fresh": "green", "current": "green", "stale": "yellow", "missing": "yellow", "drifted": "red", "broken": "red",
}  # fmt: skip


@click.command()
@in_place
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def status(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Show each profile's lock, environment, torch build and size at one glance.

    Example: envlock status
    """
    found = workflow.status(context.layout(ctx), names)
    if as_json:
        click.echo(json.dumps({"profiles": [_as_dict(one) for one in found]}, indent=1))
        return
    if not found:
        click.echo("no profiles yet: envlock init NAME", err=True)
        return
    rows = [
        (
            one.name,
            one.locked,
            one.synced,
            one.generation or "-",
            one.torch or "-",
            one.cuda or "-",
            "-" if one.bytes is None else size(one.bytes),
        )
        for one in found
    ]
    click.echo(show.columns(rows, ("profile", "lock", "environment", "generation", "torch", "cuda", "size"), _COLOURS))
    for one in found:
        for note in one.notes[:3]:
            click.echo(f"  {one.name}: {note}")
        if one.remedy:
            click.echo(f"  {click.style('try', fg='cyan')}: {one.remedy}")


def _as_dict(one: workflow.Standing) -> dict[str, object]:
    return {
        "name": one.name,
        "locked": one.locked,
        "synced": one.synced,
        "generation": one.generation,
        "torch": one.torch,
        "cuda": one.cuda,
        "python": one.python,
        "bytes": one.bytes,
        "generations": one.generations,
        "notes": list(one.notes),
        "remedy": one.remedy,
    }


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the profiles with what they are for; one line each.

    Example: envlock list
    """
    layout = context.layout(ctx)
    profiles = [load_profile(layout, name) for name in profile_names(layout)]
    if as_json:
        rows = [{"name": p.name, "description": p.description, "extends": list(p.extends)} for p in profiles]
        click.echo(json.dumps({"profiles": rows}, indent=1))
        return
    width = max((len(profile.name) for profile in profiles), default=0)
    for profile in profiles:
        click.echo(f"{click.style(f'{profile.name:<{width}}', bold=True)}  {profile.description}".rstrip())
