"""The command group and the one place where an error becomes words and an exit code."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

from envlock import __version__
from envlock.errors import EnvlockError

WORDS = "envlock.words"
"""Key of the context's meta under which the words of the command line are kept."""

# command -> module of envlock.cli that defines it under the same name (dashes become underscores), or module:name.
# Loaded when called: `envlock status` pays for status alone.
COMMANDS: dict[str, str] = {
    "activate": "activate",
    "add": "declare:add",
    "adopt": "adopt",
    "audit": "audit",
    "completion": "completion",
    "container": "container",
    "diff": "diff",
    "export": "export",
    "gc": "undo:gc",
    "git-merge": "git",
    "git-show": "git",
    "gpus": "gpus",
    "history": "undo:history",
    "hook": "hook",
    "import": "importing:import_",
    "init": "declare:init",
    "launches": "launches",
    "list": "status:list_",
    "lock": "lock",
    "outdated": "why:outdated",
    "pin": "undo:pin",
    "remove": "declare:remove",
    "rollback": "undo:rollback",
    "run": "run",
    "schema": "declare:schema",
    "shell": "shell",
    "status": "status",
    "sync": "sync",
    "tree": "why:tree",
    "unpin": "undo:unpin",
    "verify": "verify",
    "why": "why",
}


FORWARDED = frozenset({"adopt", "sync", "verify", "run", "status", "diff", "gpus"})
"""The commands that take `--in`."""


class Envlock(click.Group):
    """A group whose commands are imported when they are called, and whose errors are worded once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)  # `--in` hands them on to the envlock of another place
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        place, _, attribute = COMMANDS[cmd_name].partition(":")
        module = importlib.import_module(f"envlock.cli.{place}")
        command: click.Command = getattr(module, attribute or cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EnvlockError as error:
            report(error, as_json="--json" in sys.argv)
            ctx.exit(error.exit_code)


def report(error: EnvlockError, *, as_json: bool) -> None:
    """Print an error: one JSON object on stdout for scripts, words on stderr for people."""
    if as_json:
        click.echo(json.dumps(error.as_dict(), ensure_ascii=False))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {error}", err=True)
    if error.expected is not None:
        click.echo(f"  expected: {error.expected}", err=True)
    if error.found is not None:
        click.echo(f"  found:    {error.found}", err=True)
    for line in () if str(error) == "\n".join(error.details) else error.details:
        click.echo(f"  {line}", err=True)
    if error.hint:
        click.echo(f"  {click.style('try', fg='cyan')}: {elsewhere(error.hint)}", err=True)


def elsewhere(hint: str) -> str:
    """Return a command to type with `--in NAME` when it was forwarded from another place and is to be typed there."""
    place = os.environ.get("ENVLOCK_FORWARDED")
    words = hint.split(" ")
    if place and "--" not in words and len(words) > 1 and words[0] == "envlock" and words[1] in FORWARDED:
        return f"{hint} --in {place}"
    return hint


@click.group(cls=Envlock, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envlock")
@click.option("-C", "--project", type=click.Path(file_okay=False), help="The folder that holds profiles/ and locks/.")
@click.pass_context
def cli_group(ctx: click.Context, project: str | None) -> None:  # noqa: ARG001 - context.layout reads it
    """Locked, sealed, verified environments for stacks that share GPU hosts."""
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        ctx.color = False


def cli(arguments: Sequence[str] | None = None) -> int:
    """Run the group and return the exit code (130 on Ctrl-C)."""
    try:
        code = cli_group.main(
            args=None if arguments is None else list(arguments), standalone_mode=False, prog_name="envlock"
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        if threading.active_count() > 1:  # one still waits for a silent index, and Python would wait for it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        return 130
    return code if isinstance(code, int) else 0
