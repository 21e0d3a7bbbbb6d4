"""`envlock audit`: known vulnerabilities and withdrawn files of locks."""

from __future__ import annotations

import json
import os

import click

from envlock.cli import context, show
from envlock.review.audit import Audit, exit_code
from envlock.review.finding import SEVERITIES, Severity
from envlock.workflows import audit as workflow

_COLOURS = {"critical": "red", "high": "red", "medium": "yellow", "low": "cyan", "info": "bright_black"}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=context.complete_profiles)
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES), default="low", show_default=True,
    help="Exit 1 when a finding is that bad, or worse: other bytes are critical, a vulnerability or a file that is "
    "gone is high, a yanked file medium.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def audit(ctx: click.Context, names: tuple[str, ...], fail_on: Severity, as_json: bool) -> None:
    """Ask the advisory service for known vulnerabilities, and the indexes for yanked files; all locks unless NAMEs.

    Names and versions of all packages go to the service (OSV, through uv; ENVLOCK_ADVISORIES_URL names another).

    Exit code 0: everything was asked and nothing found. 1: something was found. 3: nothing was found, but not
    everything could be asked; what, and why, stands after "not audited".

    Example: envlock audit train-cu128
    """
    layout = context.layout(ctx)
    chosen = names or context.locked_profiles(layout)
    with show.steps(quiet=as_json) as say:
        audits = workflow.audit(layout, chosen, os.environ, say)
    if as_json:
        rows = [_as_dict(one) for one in audits]
        complete = all(one.complete for one in audits)
        click.echo(json.dumps({"complete": complete, "profiles": rows}, indent=1, ensure_ascii=False))
    else:
        for one in audits:
            _tell(one)
        if not audits:
            click.echo("no lock to audit: envlock lock", err=True)
    ctx.exit(exit_code(audits, fail_on))


def _tell(one: Audit) -> None:
    click.echo(f"{click.style(one.name, bold=True)}: {_summary(one)}")
    for unasked in one.unasked:
        click.echo(
            f"  {click.style('not audited', fg='red', bold=True)}: {unasked.reason} "
            f"({unasked.what}; {_counted(unasked.packages)})"
        )
    for finding in sorted(one.findings, key=lambda each: SEVERITIES.index(each.severity)):
        click.echo(f"  {click.style(f'{finding.severity:<8}', fg=_COLOURS[finding.severity])} {finding.text}")
        click.echo(f"           {finding.why}")
        if finding.avoid:
            click.echo(f"           {click.style('avoid:', fg='cyan')} {finding.avoid}")
    for note in one.notes:
        click.echo(f"  note: {note}")


def _counted(packages: tuple[str, ...]) -> str:
    return packages[0] if len(packages) == 1 else f"{len(packages)} packages"


def _summary(one: Audit) -> str:
    """Return one line that never says more than was asked."""
    what = {unasked.what == "advisories" for unasked in one.unasked}
    words = [f"{one.packages} packages"]
    if True in what:
        words.append("vulnerabilities not audited")
    else:
        count = len(one.vulnerabilities)
        words.append(f"{count} known vulnerabilit{'y' if count == 1 else 'ies'}" if count else "no known vulnerability")
    if False in what:
        words.append("yanked files not audited, or not all")
    kinds = [finding.id.removeprefix("audit.").replace("-", " ") for finding in one.files]
    told = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    if told:
        words.append(told)
    elif False not in what:
        words.append("nothing yanked")
    return ", ".join(words)


def _vulnerabilities(one: Audit) -> list[dict[str, object]] | None:
    """Return them, or None where nobody was asked: an empty list would look like a clean one."""
    if any(unasked.what == "advisories" for unasked in one.unasked):
        return None
    return [
        {
            "id": each.id,
            "aliases": list(each.aliases),
            "package": each.package,
            "version": each.version,
            "fixed": list(each.fixed),
            "summary": each.summary,
            "link": each.link,
        }
        for each in one.vulnerabilities
    ]


def _as_dict(one: Audit) -> dict[str, object]:
    return {
        "name": one.name,
        "packages": one.packages,
        "complete": one.complete,
        "vulnerabilities": _vulnerabilities(one),
        "files": [
            {"id": each.id, "severity": each.severity, "package": each.packages[0], "text": each.text}
            for each in one.files
        ],
        "not_audited": [
            {"what": each.what, "reason": each.reason, "packages": list(each.packages)} for each in one.unasked
        ],
        "notes": list(one.notes),
    }
