"""`envlock diff`: what a change really does."""

from __future__ import annotations

from pathlib import Path

import click

from envlock import disk
from envlock.cli import context
from envlock.cli.place import in_place
from envlock.errors import UsageError
from envlock.review import formats
from envlock.review.finding import SEVERITIES, Severity, at_least
from envlock.review.report import Comparison
from envlock.workflows import diff as workflow


@click.command()
@in_place
@click.argument("sides", nargs=-1, metavar="[A B | A..B]", shell_complete=context.complete_profiles)
@click.option("--base", metavar="REV", help="Compare every lock at REV with the working tree.")
@click.option("--format", "form", type=click.Choice(formats.NAMES), default="text")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--all", "every", is_flag=True, help="Show every package, not only the first thirty.")
@click.option("--exit-code", is_flag=True, help="Exit 1 when anything differs.")
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit 1 when a finding is that bad, or worse.")
@click.pass_context
def diff(
    ctx: click.Context,
    sides: tuple[str, ...],
    base: str | None,
    form: str,
    as_json: bool,
    output: Path | None,
    every: bool,
    exit_code: bool,
    fail_on: Severity | None,
) -> None:
    """Judge what differs between two locks: the risks first, the packages after.

    A side is a profile, NAME@env (what is installed), NAME@GENERATION, REVISION:NAME or a lock file. A..B, or --base,
    compares all locks of two git revisions; without arguments HEAD and the working tree.

    Example: envlock diff train-cu128 sglang-cu130
    """
    comparisons = _comparisons(ctx, sides, base)
    rendered = formats.render(comparisons, "json" if as_json else form, _paint, every=every)
    if output is not None:
        disk.write_atomically(output, rendered if rendered.endswith("\n") else f"{rendered}\n")
        click.echo(f"wrote {output}", err=True)
    else:
        click.echo(rendered)
    differs = exit_code and any(not comparison.difference.empty for comparison in comparisons)
    bad = fail_on is not None and any(
        at_least(finding.severity, fail_on) for comparison in comparisons for finding in comparison.findings
    )
    ctx.exit(1 if differs or bad else 0)


def _comparisons(ctx: click.Context, sides: tuple[str, ...], base: str | None) -> tuple[Comparison, ...]:
    layout = context.layout(ctx)
    if len(sides) == 1 and ".." in sides[0]:
        before, _, after = sides[0].partition("..")
        return workflow.since(layout, before or "HEAD", after.lstrip(".") or "HEAD")
    if base is not None:
        return workflow.since(layout, base, None, sides)
    if len(sides) == 2:
        return (workflow.between(layout, *sides),)
    if len(sides) == 1:
        return workflow.since(layout, "HEAD", None, sides)
    if sides:
        raise UsageError("diff compares two sides", found=" ".join(sides), hint="envlock diff A B")
    return workflow.since(layout, "HEAD", None)


def _paint(text: str, colour: str) -> str:
    return click.style(text, bold=True) if colour == "bold" else click.style(text, fg=colour)
