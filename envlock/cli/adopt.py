"""`envlock adopt`: move in with an environment made by hand."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from envlock.cli import context, show
from envlock.cli.place import in_place
from envlock.workflows import adopt as workflow


def _files(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{folder}/{values['name']}.toml" for folder in ("profiles", "locks"))


@click.command()
@functools.partial(in_place, writes=_files)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--as", "name", required=True, metavar="NAME", help="Name of the profile to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def adopt(ctx: click.Context, path: Path, name: str, as_json: bool) -> None:
    """Turn a venv, conda prefix or interpreter at PATH into a profile and a lock that rebuild it, and prove it.

    It is only read. What was asked for is told apart from what came along; damage and every difference is listed. With
    `--in`, PATH lies in the container.

    Example: envlock adopt ~/venv --as trainer
    """
    with show.steps(quiet=as_json) as say:
        done = workflow.adopt(context.layout(ctx), path, name, os.environ, say)
    found = done.adopted
    if as_json:
        click.echo(
            json.dumps(
                {
                    "profile": name,
                    "python": found.python,
                    "torch": None if found.torch is None else {"version": found.torch[0], "cuda": found.torch[1]},
                    "direct": [f"{one.name}=={one.version}" for one in found.direct],
                    "dependencies": [f"{one.name}=={one.version}" for one in found.dependencies],
                    "left_out": dict(found.left_out),
                    "indexes": dict(done.indexes),
                    "damage": list(done.damage),
                    "generation": done.generation,
                    "differences": list(done.differences),
                },
                indent=1,
            )
        )
        return
    click.echo(
        f"{click.style(name, bold=True)}: {len(found.direct)} asked for "
        f"({', '.join(one.name for one in found.direct[:6])}), "
        f"{len(found.dependencies)} came along; Python {found.python}"
        + (f", torch {found.torch[0]} (CUDA {found.torch[1] or 'none'})" if found.torch else "")
    )
    click.echo("  from " + ", ".join(f"{index}: {count}" for index, count in sorted(done.indexes.items())))
    for package, reason in found.left_out.items():
        click.echo(f"{show.mark('warn')} {package} is left out: it {reason}")
    for line in done.damage[:20]:
        click.echo(f"{show.mark('warn')} {line}")
    if len(done.damage) > 20:
        click.echo(f"   ... and {len(done.damage) - 20} more (--json)")
    if done.differences:
        click.echo(f"rebuilt as generation {done.generation}, with {len(done.differences)} differences:")
        for line in done.differences[:20]:
            click.echo(f"  {line}")
    else:
        click.echo(f"rebuilt as generation {done.generation}: every file of every package is the same, byte for byte")
    click.echo(f"  {click.style('next', fg='cyan')}: commit profiles/{name}.toml and locks/{name}.toml")
