"""`envlock why`, `tree` and `outdated`: who asked for what."""

from __future__ import annotations

import itertools
import json
import os

import click

from envlock.cli import context, quick
from envlock.errors import UsageError
from envlock.review import reasons
from envlock.workflows import diff as sides


def _held(graph: reasons.Graph, package: str, name: str) -> str:
    wanted = reasons.normalised(package)
    if wanted not in graph.versions:
        import difflib

        close = difflib.get_close_matches(wanted, list(graph.versions), n=1)
        raise UsageError(f"{package} is not in the lock of {name}", hint=f"did you mean {close[0]}?" if close else None)
    return wanted


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("package")
@click.option(
    "--since", metavar="SIDE", help="Say what moved it since SIDE: a revision as REV:NAME, a profile, a file."
)
@click.option("--most", default=quick.MOST, show_default=True, type=click.IntRange(1), help="How many ways to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the ways as JSON.")
@click.pass_context
def why(ctx: click.Context, name: str, package: str, since: str | None, most: int, as_json: bool) -> None:
    """Show every way from the profile's own lines to PACKAGE, the shortest first, and what holds its version.

    Example: envlock why sglang-cu130 triton
    """
    layout = context.layout(ctx)
    graph = reasons.Graph.of(sides.side(layout, name))
    wanted = _held(graph, package, name)
    before = None if since is None else reasons.Graph.of(sides.side(layout, since))
    moved = () if before is None else reasons.moved(before, graph, wanted)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "profile": name,
                    "package": wanted,
                    "version": graph.versions[wanted],
                    "paths": [list(path) for path in itertools.islice(reasons.paths(graph, wanted), most)],
                    "held_by": list(reasons.holds(graph, wanted)),
                    "moved_by": list(moved),
                },
                indent=1,
            )
        )
        return
    first, *lines = reasons.told(graph, wanted, most=most)
    click.echo(click.style(first, bold=True) + reasons.from_where(graph, wanted))
    for line in lines:
        click.echo(line)
    if before is not None:
        click.echo(f"before: {before.versions.get(wanted, 'not there')}")
        for line in moved or ("no requirement on it is new; a newer version was taken",):
            click.echo(f"  new: {line}")


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.option("--depth", default=3, show_default=True, type=click.IntRange(0), help="How deep to unfold.")
@click.option("--invert", metavar="PKG", help="Show what leads to PKG instead.")
@click.pass_context
def tree(ctx: click.Context, name: str, depth: int, invert: str | None) -> None:
    """Show the dependency tree of a lock; a package is unfolded once.

    Example: envlock tree sglang-cu130 --invert torch
    """
    graph = reasons.Graph.of(sides.side(context.layout(ctx), name))
    wanted = None if invert is None else _held(graph, invert, name)
    for level, line in reasons.tree(graph, depth=depth, inverted=wanted):
        click.echo(f"{'  ' * level}{line}")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option("--json", "as_json", is_flag=True, help="Print the moves as JSON.")
@click.pass_context
def outdated(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Show what `envlock lock --upgrade` would move, without writing anything. Asks the indexes.

    Example: envlock outdated train-cu128
    """
    from envlock.cli import show  # late: `why` pays neither for resolving nor for progress bars
    from envlock.workflows import lock as locking

    layout = context.layout(ctx)
    chosen = names or context.locked_profiles(layout)
    options = locking.Options(upgrade=True, write=False)
    with show.steps(quiet=as_json) as say:
        results = locking.lock_all(layout, chosen, options, os.environ, say)
    for result in results:
        if result.error is not None:
            raise result.error
    moves = {
        result.name: [line for line in locking.moves(result.before, result.after) if line.startswith("~")]
        for result in results
        if result.after is not None
    }
    if as_json:
        click.echo(
            json.dumps({"profiles": [{"name": name, "moves": lines} for name, lines in moves.items()]}, indent=1)
        )
        return
    for name, lines in moves.items():
        click.echo(f"{click.style(name, bold=True)}: {f'{len(lines)} could move' if lines else 'nothing could move'}")
        for line in lines:
            click.echo(f"  {line[2:]}")
