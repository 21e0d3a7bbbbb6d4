"""`envlock git-show` and `git-merge`, which git calls, and the hooks that write out how to set them up."""

from __future__ import annotations

from pathlib import Path

import click

from envlock import disk
from envlock.errors import EnvlockError
from envlock.launch.hooks.kind import File, Kind
from envlock.lock import text
from envlock.lock.document import Lock
from envlock.review import texts
from envlock.review.merge import merge, shown

KINDS = (
    Kind(
        name="git",
        purpose="git diff shows packages instead of hashes, git merge knows locks",
        files=lambda _: (
            File(path=".gitattributes", text=texts.ATTRIBUTES),
            File(path="envlock-git-setup", text=texts.GIT_SETUP, executable=True),
        ),
        after="sh {folder}/envlock-git-setup, once in each clone",
        takes_profile=False,
        several=True,
    ),
    Kind(
        name="pre-commit",
        purpose="no commit whose locks do not answer their profiles",
        files=lambda _: (File(path=".pre-commit-config.yaml", text=texts.PRE_COMMIT),),
        after="pre-commit install",
        takes_profile=False,
    ),
    Kind(
        name="github",
        purpose="a workflow that says in one comment what a pull request does",
        files=lambda _: (File(path=".github/workflows/envlock.yml", text=texts.GITHUB),),
        after="commit it",
        takes_profile=False,
    ),
    Kind(
        name="gitlab",
        purpose="a job that says in one note what a merge request does",
        files=lambda _: (File(path=".gitlab-ci.yml", text=texts.GITLAB),),
        after="commit it; it needs ENVLOCK_GITLAB_TOKEN, with the api scope",
        takes_profile=False,
    ),
)


@click.command(name="git-show", hidden=True)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def git_show(file: Path) -> None:
    """Print a lock as `git diff` shows it; what cannot be read is printed as it is.

    Example: git config diff.envlock.textconv 'envlock git-show'
    """
    content = file.read_text(errors="replace")
    try:
        click.echo(shown(text.parse(content, str(file))), nl=False)
    except EnvlockError:
        click.echo(content, nl=False)


@click.command(name="git-merge", hidden=True)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("path")
@click.pass_context
def git_merge(ctx: click.Context, base: Path, ours: Path, theirs: Path, path: str) -> None:
    """Merge locks package by package for git; exit 1 on a conflict, with the file left as it was on this side.

    Example: git config merge.envlock.driver 'envlock git-merge %O %A %B %P'
    """
    name = Path(path).stem
    mine, other = _read(ours, path), _read(theirs, path)
    if mine is None or other is None:
        click.echo(f"{path}: cannot be merged; then: envlock lock {name}", err=True)
        ctx.exit(1)
    done = merge(_read(base, path), mine, other)
    if done.lock is None:
        click.echo(f"{path}: {'; '.join(done.conflicts[:6])}", err=True)
        click.echo(f"  settle profiles/{name}.toml, then: envlock lock {name} && git add {path}", err=True)
        ctx.exit(1)
    disk.write_atomically(ours, text.dump(done.lock))
    click.echo(f"{path}: merged; now: envlock lock {name}", err=True)


def _read(file: Path, path: str) -> Lock | None:
    try:
        return text.parse(file.read_text(), path)
    except (EnvlockError, OSError, UnicodeDecodeError):
        return None
