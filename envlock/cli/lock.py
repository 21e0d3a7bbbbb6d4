"""`envlock lock`: profile to lock."""

from __future__ import annotations

import json
import os

import click

from envlock.cli import context, show
from envlock.cli.main import report
from envlock.declare.files import load_profile, profile_names
from envlock.launch import unchanged
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.workflows import lock as workflow


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option("--upgrade", "-U", is_flag=True, help="Let every package move to the newest version that fits.")
@click.option("--upgrade-package", "-P", multiple=True, metavar="PKG", help="Let PKG move; repeatable.")
@click.option(
    "--check", is_flag=True, help="Write nothing and ask nobody; exit 1 if a lock no longer answers its profile."
)
@click.option(
    "--inspect/--no-inspect",
    default=None,
    help="Record installed sizes, and the device code of the wheels at hand: also of what is locked already, moving "
    "no version; or do not. Without either: of what is locked now.",
)
@click.option("--dry-run", is_flag=True, help="Resolve and show what would change, but write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def lock(
    ctx: click.Context,
    names: tuple[str, ...],
    upgrade: bool,
    upgrade_package: tuple[str, ...],
    check: bool,
    inspect: bool | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Resolve profiles into locks/NAME.toml; all profiles, side by side, unless NAMEs are given.

    Locking again without a change of the profile moves nothing and asks no index.

    Example: envlock lock train-cu128 --upgrade-package accelerate
    """
    layout = context.layout(ctx)
    chosen = names or tuple(name for name in profile_names(layout) if context.is_lockable(layout, name))
    if check:
        ctx.exit(_check(layout, chosen, as_json=as_json))
    options = workflow.Options(
        again=inspect is True,
        upgrade=upgrade,
        upgrade_packages=upgrade_package,
        write=not dry_run,
        inspect=None if inspect is False else workflow.inspector(layout, os.environ),
    )
    with show.steps(quiet=as_json) as say:
        results = workflow.lock_all(layout, chosen, options, os.environ, say)
    if as_json:
        click.echo(json.dumps({"profiles": [_as_dict(result) for result in results]}, indent=1))
    for result in results:
        if result.error is not None:
            report(result.error, as_json=False)
        elif not as_json:
            _tell(result, dry_run=dry_run)
    failed = [result.error.exit_code for result in results if result.error is not None]
    if not failed and not dry_run:
        _remember(layout, names, results)
    ctx.exit(max(failed) if failed else 0)


def _remember(layout: Layout, typed: tuple[str, ...], results: tuple[workflow.Locked, ...]) -> None:
    """Keep what was looked at, so that the same words find nothing to do without looking again."""
    files = [] if typed else [layout.profiles]
    for result in results:
        profile = load_profile(layout, result.name)
        files += [layout.profile(name) for name in (profile.name, *profile.extends)] + [layout.lock(result.name)]
    unchanged.remember(
        str(layout.home),
        "lock",
        typed,
        project=str(layout.project),
        files=map(str, files),
        links=(),
        said="".join(
            "".join(
                [f"{result.name}: unchanged, {_held(result.after)}\n", *(f"{line}\n" for line in _warnings(result))]
            )
            for result in results
            if result.after
        ),
    )


def _held(lock: Lock) -> str:
    torch = f", torch {lock.torch.version} (CUDA {lock.torch.cuda})" if lock.torch is not None else ""
    return f"{len(lock.packages)} packages{torch}"


def _warnings(result: workflow.Locked) -> list[str]:
    return [
        f"  {click.style('warning', fg='yellow')}: {package.name} {package.version} is yanked"
        f"{f': {package.yanked}' if package.yanked else ', without a reason'}"
        for package in workflow.yanked(result.after)
    ]


def _tell(result: workflow.Locked, *, dry_run: bool) -> None:
    name = click.style(result.name, bold=True)
    lock = result.after
    assert lock is not None
    if not result.changed:
        click.echo(f"{name}: unchanged, {_held(lock)}", err=True)
        for line in _warnings(result):
            click.echo(line, err=True)
        return
    moves = workflow.moves(result.before, lock)
    verb = "would write" if dry_run else "wrote"
    click.echo(f"{name}: {verb} locks/{result.name}.toml, {_held(lock)}", err=True)
    for reason in result.reasons:
        click.echo(f"  because {reason}", err=True)
    for line in moves[:40] if result.before is not None else ():
        click.echo(f"  {line}", err=True)
    if result.before is not None and len(moves) > 40:
        click.echo(f"  ... and {len(moves) - 40} more; see `envlock diff`", err=True)
    for line in _warnings(result):
        click.echo(line, err=True)


def _as_dict(result: workflow.Locked) -> dict[str, object]:
    return {
        "name": result.name,
        "changed": result.changed,
        "reasons": [str(reason) for reason in result.reasons],
        "yanked": [
            {"name": package.name, "version": package.version, "reason": package.yanked}
            for package in workflow.yanked(result.after)
        ],
        "moves": [] if result.after is None else workflow.moves(result.before, result.after),
        "error": None if result.error is None else result.error.as_dict(),
    }


def _check(layout: Layout, names: tuple[str, ...], *, as_json: bool) -> int:
    states = [workflow.check_one(layout, name) for name in names]
    if as_json:
        click.echo(
            json.dumps(
                {"profiles": [{"name": s.name, "locked": s.state, "reasons": list(s.reasons)} for s in states]},
                indent=1,
            )
        )
    else:
        for state in states:
            sign = show.mark("pass" if state.state == "fresh" else "fail")
            click.echo(f"{sign} {state.name}: {state.state}", err=True)
            for reason in state.reasons:
                click.echo(f"     {reason}", err=True)
        stale = [state.name for state in states if state.state != "fresh"]
        if stale:
            click.echo(f"  {click.style('try', fg='cyan')}: envlock lock {' '.join(stale)}", err=True)
    return 0 if all(state.state == "fresh" for state in states) else 1
