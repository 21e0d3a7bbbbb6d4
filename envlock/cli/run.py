"""`envlock run`: become a command inside a sealed environment. The fast path (envlock/launch/fast.py) comes first."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from envlock.cli import context
from envlock.errors import UsageError
from envlock.launch import journal, options

if TYPE_CHECKING:
    from envlock.workflows import run as workflow


def _help() -> str:
    rows = []
    for option, metavar, _, text in options.TABLE:
        rows.append(f"{option} {metavar}" if metavar else option)
        rows.append(f"    {text}")
    return "\b\n" + "\n".join(rows)


EPILOG = _help()


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete options, then the profile's name, then files."""
    if incomplete.startswith("-") and not ctx.params.get("words"):
        return [CompletionItem(option) for option, _, _, _ in options.TABLE if option.startswith(incomplete)]
    return context.complete_profile_and_files(ctx, param, incomplete)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    epilog=EPILOG,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="NAME [--] COMMAND...", shell_complete=_complete)
@click.pass_context
def run(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run COMMAND in the sealed environment of profile NAME, as this very process.

    Refuses (exit 125) when the environment is missing, stale, drifted or of the wrong build, and says what mends it.

    Example: envlock run train-cu128 -- torchrun --nproc-per-node 8 train.py
    """
    raw = _words(ctx, words)
    if {"-h", "--help"} & set(raw[: raw.index("--")] if "--" in raw else raw[:2]):
        click.echo(ctx.get_help())
        return
    try:
        request = options.parse(raw)
    except options.BadWords as error:
        raise UsageError(str(error), hint="envlock run --help") from error
    layout = context.layout(ctx)
    _elsewhere(ctx, request)
    from envlock.cli import show  # late: what runs in a container needs neither progress nor NVML here
    from envlock.workflows import run as workflow

    with show.steps(quiet="--json" in request.flags) as say:
        launch = workflow.prepare(layout, request, os.environ, say)
    for warning in launch.warnings:
        click.echo(f"{click.style('warning', fg='yellow')}: {warning.found}; {warning.remedy}", err=True)
    if request.has("--explain-env"):
        click.echo(explanation(launch), err=True)
    log = request.value("--log") or os.environ.get("ENVLOCK_LOG")
    if log and not request.has("--dry-run"):
        entry = workflow.entry(launch, request)
        for file in dict.fromkeys([os.path.abspath(log), str(layout.launches)]):
            journal.append(file, entry)
    if request.has("--dry-run"):
        _tell(launch, as_json=request.has("--json"))
        return
    sys.stdout.flush()
    sys.stderr.flush()
    workflow.execute(launch)


def _words(ctx: click.Context, words: tuple[str, ...]) -> list[str]:
    """Return the words after `run` as they were typed: click takes a first `--` away."""
    typed = list(ctx.meta.get("envlock.words", ()))
    return typed[typed.index("run") + 1 :] if "run" in typed else list(words)


def _elsewhere(ctx: click.Context, request: options.Request) -> None:
    """Run the same words in a container when the words or the profile ask for one."""
    from envlock.declare.files import load_profile
    from envlock.workflows import place

    asked = request.value("--in")
    inside = place.inside_of()
    if inside is not None and asked not in (None, place.HERE, inside):
        raise UsageError(
            f"this is {inside}, and from inside there is no way into {asked}",
            hint="type it on the machine that declares both",
        )
    if inside is not None or asked == place.HERE:
        return
    layout = context.layout(ctx)
    profile = load_profile(layout, request.name)
    chosen = asked or profile.container
    if chosen is None:
        return
    words = ["run", *sorted(request.flags)]
    for option, values in request.values.items():
        if option != "--in":
            words += [f"{option}={value}" for value in values]
    ctx.exit(
        place.forward(
            layout, chosen, [*words, request.name, "--", *request.command], os.environ, pass_=profile.env.pass_
        )
    )


def explanation(launch: workflow.Launch) -> str:
    """Return what became of each variable, what was dropped first, in aligned columns."""
    order = {"dropped": 0, "rebuilt": 1, "set": 2, "kept": 3}
    steps = sorted(launch.composition.steps, key=lambda step: (order[step.action], step.name))
    width = max(len(step.name) for step in steps)
    colour = {"dropped": "red", "rebuilt": "yellow", "set": "green", "kept": None}
    lines = []
    for step in steps:
        action = click.style(f"{step.action:<8}", fg=colour[step.action])
        lines.append(f"{action}{step.name:<{width}}  {step.why}")
        if step.action in ("set", "rebuilt"):
            lines.append(f"{'':8}{'':{width}}  = {step.value}")
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _tell(launch: workflow.Launch, *, as_json: bool) -> None:
    if as_json:
        data = {
            "profile": launch.facts["profile"],
            "generation": launch.facts["generation"],
            "environment_digest": launch.facts["digest"],
            "argv": list(launch.argv),
            "cwd": launch.cwd or os.getcwd(),
            "gpus": list(launch.gpus),
            "env": dict(sorted(launch.composition.env.items())),
            "steps": [
                {"name": step.name, "action": step.action, "value": step.value, "why": step.why}
                for step in launch.composition.steps
            ],
        }
        click.echo(json.dumps(data, indent=1))
        return
    for name, value in sorted(launch.composition.env.items()):
        click.echo(os.fsencode(f"{name}={shlex.quote(value)}"))
    click.echo(os.fsencode(shlex.join(launch.argv)))
