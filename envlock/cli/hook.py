"""`envlock hook`: write out what makes a launcher go through envlock."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from envlock.cli import completion, context, git, show
from envlock.declare.files import profile_names
from envlock.errors import UsageError
from envlock.launch import hooks
from envlock.launch.hooks.kind import File, Kind
from envlock.workflows import hook as workflow

KINDS: tuple[Kind, ...] = (*hooks.KINDS, *git.KINDS, completion.KIND)


def _complete_kinds(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind.name, help=kind.purpose) for kind in KINDS if kind.name.startswith(incomplete)]


EPILOG = "\b\nKinds:\n" + "\n".join(f"  {kind.name:<12}{kind.purpose}" for kind in KINDS)


@click.command(epilog=EPILOG)
@click.argument("kind", required=False, shell_complete=_complete_kinds)
@click.argument("name", required=False, shell_complete=context.complete_profiles)
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("-o", "--output", metavar="PATH", help="Write there: a file, or a folder (`.` for this one).")
@click.option("--dry-run", is_flag=True, help="With -o: tell what would be written, write nothing.")
@click.option("--force", is_flag=True, help="Replace files that hold something else.")
@click.option("--no-gpu", is_flag=True, help="Launch without a GPU.")
@click.option("--each-rank", is_flag=True, help="torchrun: every rank through envlock too.")
@click.option("--cwd", metavar="DIR", help="systemd, supervisor: its folder; else the project.")
@click.option("--user", metavar="USER", help="systemd, supervisor: who runs it.")
@click.pass_context
def hook(
    ctx: click.Context,
    kind: str | None,
    name: str | None,
    command: tuple[str, ...],
    output: str | None,
    dry_run: bool,
    force: bool,
    no_gpu: bool,
    each_rank: bool,
    cwd: str | None,
    user: str | None,
) -> None:
    """Write out the integration of a launcher with profile NAME; without -o, print it.

    Example: envlock hook systemd smoke -o . -- python serve.py
    """
    if kind is None:
        click.echo(show.columns([(known.name, known.purpose) for known in KINDS], ("KIND", "WHAT IT IS")))
        return
    chosen = _kind(kind)
    if command and not chosen.takes_command:
        raise UsageError(f"the {kind} hook takes no command", hint=f"envlock hook {kind} {name or 'NAME'}")
    if each_rank and kind != "torchrun":
        raise UsageError("--each-rank is for torchrun", hint="envlock hook torchrun NAME --each-rank")
    if (cwd or user) and kind not in ("systemd", "supervisor"):
        raise UsageError("--cwd and --user are for systemd and supervisor", hint="envlock hook --help")
    folder, file_path = _place(chosen, output)
    wish = workflow.Wish(folder=folder, cwd=cwd, user=user, no_gpu=no_gpu, each_rank=each_rank, command=command)
    files = _files(ctx, chosen, name, wish)
    if output is None:
        _print(files)
        _not_yet(ctx, name)
        return
    wanted = [(file_path or folder / file.path, file) for file in files]
    for written in workflow.write(wanted, force=force, dry_run=dry_run):
        click.echo(f"{'would be ' if dry_run else ''}{written.state}  {written.path}", err=True)
    if not dry_run:
        after = chosen.after.format(path=wanted[0][0], folder=folder, name=name)
        click.echo(f"  {click.style('next', fg='cyan')}: {after}", err=True)
    _not_yet(ctx, name)


def _not_yet(ctx: click.Context, name: str | None) -> None:
    """Say so when what the hook starts is not there yet: writing hooks before the first sync is fine."""
    if name is not None and not os.path.lexists(context.layout(ctx).shim(name)):
        click.echo(
            f"  {click.style('note', fg='yellow')}: {name} has no environment here yet: envlock sync {name}", err=True
        )


def _kind(word: str) -> Kind:
    for known in KINDS:
        if known.name == word:
            return known
    names = [known.name for known in KINDS]
    close = difflib.get_close_matches(word, names, n=1)
    raise UsageError(
        f"there is no hook {word!r}",
        found=", ".join(names),
        hint=f"did you mean {close[0]!r}?" if close else "envlock hook lists them",
    )


def _place(kind: Kind, output: str | None) -> tuple[Path, Path | None]:
    """Return the folder to write to, and the file when one was named."""
    if output is None:
        return Path.cwd(), None
    path = Path(output).absolute()
    if kind.several or output.endswith("/") or path.is_dir():
        if path.exists() and not path.is_dir():
            raise UsageError(f"{output} is no folder; this hook is several files", hint="-o FOLDER/")
        return Path(os.path.normpath(path)), None
    return path.parent, path


def _files(ctx: click.Context, kind: Kind, name: str | None, wish: workflow.Wish) -> tuple[File, ...]:
    if not kind.takes_profile:
        if name is not None:
            raise UsageError(f"the {kind.name} hook is the same for every profile", hint=f"envlock hook {kind.name}")
        return workflow.general(kind)
    if name is None:
        names = ", ".join(profile_names(context.layout(ctx))) or "none yet"
        raise UsageError(f"which profile? There are: {names}", hint=f"envlock hook {kind.name} NAME")
    layout = context.layout(ctx)
    if not context.is_lockable(layout, name):
        raise UsageError(f"{name} is only there to be extended: it has no environment", hint="envlock list")
    return workflow.files(layout, kind, name, wish, context.envlock_words(layout))


def _print(files: Sequence[File]) -> None:
    for file in files:
        if len(files) > 1:
            click.echo(f"==> {file.path} <==", err=True)
        click.echo(file.text, nl=False)
