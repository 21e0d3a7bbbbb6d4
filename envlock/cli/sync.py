"""`envlock sync`: lock to sealed environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from envlock.cli import context, show
from envlock.cli.main import report
from envlock.cli.place import in_place
from envlock.declare.files import load_profile
from envlock.environment.installation import size
from envlock.launch import unchanged
from envlock.layout import Layout
from envlock.workflows import sync as workflow


@click.command()
@in_place
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option("--offline", is_flag=True, help="Install from the cache alone.")
@click.option("--rebuild", is_flag=True, help="Build a new generation even if the current one is right.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def sync(ctx: click.Context, names: tuple[str, ...], offline: bool, rebuild: bool, as_json: bool) -> None:
    """Build the environments that the locks describe; every locked profile unless NAMEs are given.

    A new generation is built beside the current one, sealed, then switched to; earlier ones stay for rollback.

    Example: envlock sync train-cu128
    """
    layout = context.layout(ctx)
    chosen = names or context.locked_profiles(layout)
    options = workflow.Options(offline=offline, rebuild=rebuild)
    with show.steps(quiet=as_json) as say:
        results = workflow.sync_all(layout, chosen, options, os.environ, say)
    if as_json:
        click.echo(json.dumps({"profiles": [_as_dict(result) for result in results]}, indent=1))
    for result in results:
        if result.error is not None:
            report(result.error, as_json=False)
        elif not as_json:
            _tell(result)
    failed = [result.error.exit_code for result in results if result.error is not None]
    if not failed:
        _remember(layout, names, results)
    ctx.exit(max(failed) if failed else 0)


def _remember(layout: Layout, typed: tuple[str, ...], results: tuple[workflow.Synced, ...]) -> None:
    """Keep what was looked at, so that the same words find nothing to do without looking again."""
    files = [] if typed else [layout.profiles, layout.locks]
    for result in results:
        profile = load_profile(layout, result.name)
        files += [layout.profile(name) for name in (profile.name, *profile.extends)]
        files += [layout.lock(result.name), layout.shim(result.name)]
        if result.seal is not None:
            files += [Path(result.seal.prefix) / "seal" / "seal.json", Path(result.seal.base_python)]
    unchanged.remember(
        str(layout.home),
        "sync",
        typed,
        project=str(layout.project),
        files=map(str, files),
        links=[str(layout.current(result.name)) for result in results],
        said="".join(f"{result.name}: {_words(result, built=False)}\n" for result in results),
    )


def _words(result: workflow.Synced, *, built: bool) -> str:
    seal = result.seal
    assert seal is not None
    torch = f", torch {seal.torch.version} (CUDA {seal.torch.cuda})" if seal.torch is not None else ""
    state = "built and sealed" if built else "already there"
    return (
        f"{state}, generation {result.generation}: {len(seal.packages)} packages, {size(seal.bytes)} "
        f"by {seal.links}{torch}"
    )


def _tell(result: workflow.Synced) -> None:
    click.echo(f"{click.style(result.name, bold=True)}: {_words(result, built=result.built)}", err=True)
    if result.built:
        click.echo(f"  {click.style('next', fg='cyan')}: envlock run {result.name} -- python ...", err=True)


def _as_dict(result: workflow.Synced) -> dict[str, object]:
    seal = result.seal
    return {
        "name": result.name,
        "generation": result.generation,
        "built": result.built,
        "environment_digest": None if seal is None else seal.environment_digest,
        "torch": None if seal is None or seal.torch is None else seal.torch.version,
        "cuda": None if seal is None or seal.torch is None else seal.torch.cuda,
        "bytes": None if seal is None else seal.bytes,
        "links": None if seal is None else seal.links,
        "error": None if result.error is None else result.error.as_dict(),
    }
