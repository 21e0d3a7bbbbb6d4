"""`envlock verify`: tell before launch whether a stack runs on these GPUs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from envlock.cli import context, show
from envlock.cli.place import in_place
from envlock.declare.files import load_profile
from envlock.environment import store
from envlock.environment.seal import FOLDER
from envlock.errors import EnvlockError, ProjectNotFound, UsageError
from envlock.launch import verdict
from envlock.layout import Layout
from envlock.verify import explain
from envlock.verify.check import Check, Tier
from envlock.workflows import verify as workflow
from envlock.workflows import verify_lock as lock_only


@click.command()
@in_place
@click.argument("name", required=False, shell_complete=context.complete_profiles)
@click.option("--tier", "tiers", multiple=True, type=click.Choice(workflow.TIERS), help="Only this tier; repeatable.")
@click.option("--deep", is_flag=True, help="Hash every file instead of comparing size and time.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.option("--explain", "wanted", metavar="ID", help="Say what a check means, and what to do; then stop.")
@click.option("--python", type=click.Path(path_type=Path), help="Judge this interpreter's environment, managed or not.")
@click.option("--from-lock", is_flag=True, help="Judge the lock alone, for the host that --driver and --gpu describe.")
@click.option("--driver", metavar="VERSION", help="With --from-lock: the host's driver, such as 580.95.")
@click.option("--gpu", metavar="CAPABILITY", help="Compute capability to judge for, such as 12.0.")
@click.option("--count", type=click.IntRange(1, 1024), help="Number of GPUs, instead of the profile's.")
@click.option("--collective", is_flag=True, help="Also run an NCCL all-reduce over two GPUs (one, where there is one).")
@click.option("--no-gpu", is_flag=True, help="Leave out what needs a GPU.")
@click.option("--fresh", is_flag=True, help="Probe again, whatever an earlier probe has shown.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds for the whole probe.")
@click.option("--all", "everything", is_flag=True, help="Show the passed checks one by one, too.")
@click.pass_context
def verify(
    ctx: click.Context,
    name: str | None,
    tiers: tuple[Tier, ...],
    deep: bool,
    as_json: bool,
    wanted: str | None,
    python: Path | None,
    from_lock: bool,
    driver: str | None,
    gpu: str | None,
    count: int | None,
    collective: bool,
    no_gpu: bool,
    fresh: bool,
    timeout: float,
    everything: bool,
) -> None:
    """Know before launch whether the stack runs here: files, then host, then a probe on the GPUs.

    Exit 1 when a check failed. Without --tier, every tier that this machine allows.

    Example: envlock verify sglang-cu130 --tier static
    """
    if wanted is not None:
        click.echo(explain.text(wanted))
        return
    try:
        layout = context.layout(ctx)
    except ProjectNotFound:
        if python is None:
            raise
        layout = None
    if from_lock:
        if layout is None or name is None:
            raise UsageError("--from-lock judges a profile's lock", hint="envlock verify NAME --from-lock --gpu 12.0")
        report = lock_only.from_lock(layout, name, driver=driver, capability=gpu)
        basis = None
    else:
        options = workflow.Options(
            tiers=tiers,
            deep=deep,
            python=python,
            capability=gpu,
            count=count,
            no_gpu=no_gpu,
            collective=collective,
            timeout=timeout,
            fresh=fresh,
        )
        basis = _basis(layout, name, options)
        with show.steps(quiet=True) as _:
            report = workflow.verify(layout, name, options, os.environ)
    in_json = json.dumps(report.as_dict(), indent=1, ensure_ascii=False)
    click.echo(in_json if as_json else _rendered(report, everything=everything))
    if basis is not None and report.ok and report.tiers == ("static",):
        text = _rendered(report, everything=False)
        said = {"json": in_json, "text": click.unstyle(text), "coloured": text}
        basis.remember(verdict.kind(only_static=bool(tiers)), said)
    ctx.exit(0 if report.ok else 1)


def _basis(layout: Layout | None, name: str | None, options: workflow.Options) -> verdict.Verdict | None:
    """Return what a verification in its plainest form will look at; None for any other, which is not remembered."""
    if layout is None or name is None or options not in (workflow.Options(), workflow.Options(tiers=("static",))):
        return None
    try:
        return _verdict(layout, name)
    except (EnvlockError, OSError):
        return None  # the verification itself says what is wrong


def _verdict(layout: Layout, name: str) -> verdict.Verdict:
    profile = load_profile(layout, name)
    seal = store.read_seal(store.current_prefix(layout, name))
    own = {"seal.json", "code.json", "inventory", *seal.digests}
    of_seal = (f"{seal.prefix}/{FOLDER}/{file}" for file in sorted(own))
    declared = (str(layout.profile(one)) for one in (name, *profile.extends))
    return verdict.Verdict(
        (str(layout.project), str(layout.home)),
        name,
        prefix=seal.prefix,
        minor=".".join(seal.python.split(".")[:2]),
        files=[str(layout.lock(name)), seal.base_python, *of_seal, *declared],
    )


def _rendered(report: workflow.Report, *, everything: bool) -> str:
    """Return what failed first, warnings next, the rest folded into one line."""
    by_status = {
        status: [check for check in report.checks if check.status == status]
        for status in ("fail", "warn", "skip", "pass")
    }
    lines = [line for status in ("fail", "warn") for check in by_status[status] for line in _lines(check)]
    lines += [f"{show.mark('skip')} {check.id}: {check.found}" for check in by_status["skip"] if check.found]
    accepted = [check for check in by_status["pass"] if check.id == "kernels.accepted" and ": " in check.found]
    if everything:
        lines += [f"{show.mark('pass')} {check.id}: {check.found or check.expected}" for check in by_status["pass"]]
    else:
        lines += [f"{show.mark('pass')} {check.id}, though it does not run: {check.found}" for check in accepted]
    verdict = click.style("passed", fg="green") if report.ok else click.style("FAILED", fg="red", bold=True)
    subject = report.profile + (f" {report.generation}" if report.generation else "")
    counted = ", ".join(
        f"{len(by_status[status])} {word}"
        for status, word in (("fail", "failed"), ("warn", "warned"), ("skip", "skipped"), ("pass", "passed"))
        if by_status[status]
    )
    lines.append(f"{subject}: {verdict} ({counted})")
    if by_status["fail"]:
        lines.append(f"  {click.style('more', fg='cyan')}: envlock verify --explain {by_status['fail'][0].id}")
    return "\n".join(lines)


def _lines(check: Check) -> list[str]:
    head = f"{show.mark(check.status)} {click.style(check.id, bold=True)}: {check.found}"
    lines = [head]
    if check.expected:
        lines.append(f"     expected: {check.expected}")
    for number, line in enumerate(check.where.splitlines()):
        lines.append(f"     {'' if number else 'where:':<9} {line}")
    if check.remedy:
        lines.append(f"     {click.style('try', fg='cyan')}:      {check.remedy}")
    return lines
