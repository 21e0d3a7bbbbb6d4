"""`envlock history`, `rollback`, `pin`, `unpin` and `gc`: since when, and back."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from envlock.cli import context, show
from envlock.environment.installation import size
from envlock.workflows import undo as workflow
from envlock.workflows.rollback import told


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.option("--json", "as_json", is_flag=True, help="Print the generations as JSON.")
@click.pass_context
def history(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show a profile's generations: since when, from which commit, what changed, how often used.

    Example: envlock history train-cu128
    """
    rows = workflow.history(context.layout(ctx), name)
    if as_json:
        click.echo(json.dumps({"profile": name, "generations": [asdict(row) for row in rows]}, indent=1))
        return
    if not rows:
        click.echo(f"profile {name} has no generations here: envlock sync {name}", err=True)
        return
    table = [
        (
            f"{'*' if row.current else 'p' if row.pinned else ' '} {row.generation}"
            + ("" if row.present else " (gone)"),
            row.time.replace("T", " ").removesuffix("Z")[:16],
            row.commit[:8] or "-",
            row.user or "-",
            f"{row.launches}" + (f", last {row.last_use[:10]}" if row.last_use else ""),
            row.change,
        )
        for row in rows
    ]
    click.echo(show.columns(table, ("  generation", "since (UTC)", "commit", "by", "launches", "change")))


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("generation", required=False)
@click.option("--lock", "with_lock", is_flag=True, help="Put the lock file of that generation back, too.")
@click.option("--yes", is_flag=True, help="Replace a lock file with uncommitted changes without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.pass_context
def rollback(ctx: click.Context, name: str, generation: str | None, with_lock: bool, yes: bool, as_json: bool) -> None:
    """Go back to the generation before the current one, or to GENERATION; instantly, by rename.

    Example: envlock rollback train-cu128
    """
    done = workflow.rollback(
        context.layout(ctx), name, generation, with_lock=with_lock, confirm=lambda words: yes or click.confirm(words)
    )
    if as_json:
        click.echo(json.dumps(asdict(done)))
        return
    first, *others = told(name, done.before, done.after, done.lock)
    click.echo(click.style(name, bold=True) + first.removeprefix(name), err=True)
    for line in others:
        click.echo(line, err=True)


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("generation", required=False)
@click.pass_context
def pin(ctx: click.Context, name: str, generation: str | None) -> None:
    """Keep a generation (the current one by default) from ever being collected.

    Example: envlock pin train-cu128 0003
    """
    click.echo(f"{name}: {workflow.pin(context.layout(ctx), name, generation, held=True)} is pinned", err=True)


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("generation", required=False)
@click.pass_context
def unpin(ctx: click.Context, name: str, generation: str | None) -> None:
    """Take the pin off a generation.

    Example: envlock unpin train-cu128 0003
    """
    click.echo(f"{name}: {workflow.pin(context.layout(ctx), name, generation, held=False)} is not pinned", err=True)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option("--keep", default=2, show_default=True, type=click.IntRange(0), help="How many recent generations stay.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would go.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def gc(ctx: click.Context, names: tuple[str, ...], keep: int, dry_run: bool, as_json: bool) -> None:
    """Remove generations nobody needs: not current, not pinned, not recent, not in use by a process.

    Example: envlock gc --dry-run
    """
    done = workflow.collect(context.layout(ctx), names, keep=keep, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(asdict(done), indent=1))
        return
    verb = "would remove" if dry_run else "removed"
    for name, generations in done.removed.items():
        if generations:
            click.echo(f"{click.style(name, bold=True)}: {verb} {', '.join(generations)}")
        for one in done.kept[name]:
            click.echo(f"{name}: keeps {one.generation} ({one.reason})")
    for left in done.leftovers:
        click.echo(f"{verb} {left}, left by an interrupted sync")
    frees = "would free" if dry_run else "freed"
    shared = f" (of {size(done.apparent)}; the rest is shared with what stays)" if done.apparent > done.freed else ""
    click.echo(f"{frees} {size(done.freed)}{shared}")
