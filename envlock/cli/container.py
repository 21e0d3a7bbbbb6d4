"""`envlock container`: plan, create, start, stop, look at and remove a declared container; run commands in it."""

from __future__ import annotations

import json
import shlex

import click

from envlock.cli import show
from envlock.cli.context import layout
from envlock.container.plan import Step
from envlock.container.transport import Transport
from envlock.errors import ContainerError
from envlock.verify.check import Check, holds
from envlock.workflows import container as work


@click.group(epilog="Example: envlock container create local-lxc")
def container() -> None:
    """Make, run and look after the containers declared in container/NAME.toml."""


def _tell(check: Check, *, err: bool = False) -> None:
    click.echo(f"{show.mark(check.status)} {check.id.removeprefix('container.'):<22} {check.found}", err=err)
    if check.remedy:
        click.echo(f"     mend on the {check.where}: {check.remedy}", err=err)


def _step(step: Step, sign: str = "+") -> None:
    click.echo(f"{click.style(sign, fg='green')} {step.text}", err=True)


@container.command(epilog="Example: envlock container plan ct200")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def plan(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Show what `create` would change, and the engine's exact configuration; change nothing.

    Exits 1 when something forbids it or the host cannot be reached.
    """
    engine = work.open_container(layout(ctx), name)
    seen = work.look(engine)
    now = seen.plan
    if as_json:
        click.echo(
            json.dumps(
                {
                    "container": name,
                    "engine": engine.container.engine,
                    "reached": seen.host.reached,
                    "state": seen.guest.state,
                    "steps": [{"id": step.id, "text": step.text, "details": list(step.details)} for step in now.steps],
                    "problems": list(now.problems),
                    "notes": list(now.notes),
                    "config": list(now.config),
                },
                ensure_ascii=False,
            )
        )
    else:
        for problem in now.problems:
            click.echo(f"{click.style('problem', fg='red')}: {problem}")
        for note in now.notes:
            click.echo(f"{click.style('note', fg='yellow')}: {note}")
        if seen.error is not None:
            click.echo(f"  {seen.error.message}")
            for line in seen.error.details:
                click.echo(f"  {line}")
        click.echo(
            f"{name} ({engine.container.engine}, {engine.host}): {seen.guest.state if seen.host.reached else '?'}"
        )
        for step in now.steps:
            click.echo(f"  {click.style('+', fg='green')} {step.text}")
            for line in step.details:
                click.echo(f"      {line}")
        if not now.steps:
            click.echo("  nothing to do")
        click.echo("\nconfiguration:")
        for line in now.config:
            click.echo(f"  {line}")
    ctx.exit(1 if now.problems or not seen.host.reached else 0)


@container.command(epilog="Example: envlock container create local-lxc")
@click.argument("name")
@click.pass_context
def create(ctx: click.Context, name: str) -> None:
    """Make the container and everything inside, from wherever it stands; a second time changes nothing."""
    where = layout(ctx)
    engine = work.open_container(where, name)
    seen = work.create(engine, _step)
    for note in seen.plan.notes:
        click.echo(f"{click.style('note', fg='yellow')}: {note}", err=True)
    checks = work.doctor(where, engine)
    for check in checks:
        if check.status in ("fail", "warn"):
            _tell(check, err=True)
    if not holds(checks):
        click.echo(f"{name} is as declared, but not well", err=True)
        ctx.exit(1)
    click.echo(f"{name} is as declared; next: envlock sync PROFILE --in {name}", err=True)


@container.command(epilog="Example: envlock container fill ct200 && envlock sync train-cu128 --offline --in ct200")
@click.argument("name")
@click.pass_context
def fill(ctx: click.Context, name: str) -> None:
    """Bring this machine's uv cache inside: for a container without a network, before `sync --offline`."""
    count = work.fill(work.open_container(layout(ctx), name))
    click.echo(f"{name}: {count} wheels brought inside" if count else f"{name}: has every wheel already", err=True)


@container.command(epilog="Example: envlock container start local-lxc")
@click.argument("name")
@click.pass_context
def start(ctx: click.Context, name: str) -> None:
    """Start it, device numbers checked and brought up to date first."""
    started = work.start(work.open_container(layout(ctx), name))
    click.echo(f"{name} {'runs' if started else 'runs already'}", err=True)


@container.command(epilog="Example: envlock container stop local-lxc")
@click.argument("name")
@click.pass_context
def stop(ctx: click.Context, name: str) -> None:
    """Stop it: asked first, forced after half a minute."""
    stopped = work.stop(work.open_container(layout(ctx), name))
    click.echo(f"{name} {'is stopped' if stopped else 'did not run'}", err=True)


@container.command(epilog="Example: envlock container status local-lxc --json")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def status(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Show whether it is there, runs, and is as declared. Exits 1 when it is not."""
    engine = work.open_container(layout(ctx), name)
    seen = work.look(engine)
    if seen.error is not None:
        raise seen.error
    pending = [step.text for step in seen.plan.steps]
    good = not pending and not seen.plan.problems
    if as_json:
        data = {
            "container": name,
            "engine": engine.container.engine,
            "state": seen.guest.state,
            "made_by_envlock": seen.guest.ours,
            "as_declared": good,
            "pending": pending,
            "problems": list(seen.plan.problems),
        }
        click.echo(json.dumps(data, ensure_ascii=False))
    else:
        click.echo(f"{name}: {seen.guest.state}{', as declared' if good else ''}")
        for problem in seen.plan.problems:
            click.echo(f"  {click.style('problem', fg='red')}: {problem}")
        for text in pending:
            click.echo(f"  to do: {text}")
        if pending and not seen.plan.problems:
            click.echo(f"  {click.style('try', fg='cyan')}: envlock container create {name}")
    ctx.exit(0 if good else 1)


@container.command(epilog="Example: envlock container doctor ct200")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def doctor(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Check a running container from both sides, and say which side to mend. Exits 1 when a check fails."""
    where = layout(ctx)
    checks = work.doctor(where, work.open_container(where, name))
    good = holds(checks)
    if as_json:
        click.echo(json.dumps({"container": name, "ok": good, "checks": [check.as_dict() for check in checks]}))
    else:
        order = {"fail": 0, "warn": 1, "pass": 2, "skip": 3}
        for check in sorted(checks, key=lambda check: order[check.status]):
            _tell(check)
    ctx.exit(0 if good else 1)


def _running(ctx: click.Context, name: str) -> Transport:
    engine = work.open_container(layout(ctx), name)
    if engine.container.host is None and engine.guest().state != "running":
        raise ContainerError(f"{name} does not run", hint=f"envlock container start {name}")
    return engine.inside


@container.command(
    "exec",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: envlock container exec ct200 -- nvidia-smi",
)
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec_(ctx: click.Context, name: str, command: tuple[str, ...]) -> None:
    """Run a command inside as root, words, streams and exit status untouched."""
    ctx.exit(_running(ctx, name).call(command, cwd="/root"))


@container.command(epilog="Example: envlock container shell local-lxc")
@click.argument("name")
@click.pass_context
def shell(ctx: click.Context, name: str) -> None:
    """Open a login shell inside."""
    ctx.exit(_running(ctx, name).call(("sh", "-c", 'exec "$(command -v bash || echo sh)" -l'), cwd="/root"))


@container.command(epilog="Example: envlock container destroy local-lxc --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def destroy(ctx: click.Context, name: str, *, yes: bool) -> None:
    """Remove a container that envlock made, with its root file system. Mounted folders stay."""
    engine = work.open_container(layout(ctx), name)
    what = f"{engine.container.guest} ({engine.container.engine}, {engine.host})"
    if not yes:
        click.confirm(f"Remove {shlex.quote(what)} and everything in its root file system?", abort=True, err=True)
    removed = work.destroy(engine)
    click.echo(f"{name} {'is removed' if removed else 'does not exist'}", err=True)


@container.command(epilog="Example: envlock container schema > container.schema.json")
def schema() -> None:
    """Print the JSON Schema of container/NAME.toml, for editors that complete and check."""
    from envlock.container.schema import container_schema

    click.echo(json.dumps(container_schema(), indent=2))
