"""`envlock init`, `add`, `remove` and `schema`: writing profiles."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from envlock import disk
from envlock.cli import context
from envlock.declare import edit
from envlock.declare.files import load_profile, profile_names
from envlock.declare.schema import SCHEMAS
from envlock.errors import ProjectNotFound, UsageError
from envlock.layout import Layout, is_profile_name


@click.command()
@click.argument("name")
@click.option("--python", default=None, help="Python version, such as 3.11.")
@click.option("--extends", default=None, metavar="PROFILE", help="Build on another profile.")
@click.option("--requirement", "-r", "requirements", multiple=True, metavar="REQ", help="A requirement; repeatable.")
@click.option("--torch", default=None, metavar="VERSION", help="Exact torch version, such as 2.10.0.")
@click.option("--cuda", default=None, help="CUDA release of that torch, such as 12.8, or cpu.")
@click.option("--gpu", default=None, metavar="CAPABILITY", help="Compute capability, such as 12.0.")
@click.option("--count", default=None, type=click.IntRange(1, 1024), help="How many GPUs.")
@click.option("--description", default=None, help="One line for people.")
@click.pass_context
def init(
    ctx: click.Context,
    name: str,
    python: str | None,
    extends: str | None,
    requirements: tuple[str, ...],
    torch: str | None,
    cuda: str | None,
    gpu: str | None,
    count: int | None,
    description: str | None,
) -> None:
    """Write a first profile, profiles/NAME.toml; on a terminal, ask for what no option says. Overwrites nothing.

    Example: envlock init train --python 3.11 --torch 2.10.0 --cuda 12.8 --gpu 12.0 -r transformers
    """
    if not is_profile_name(name):
        raise UsageError(f"{name!r} cannot name a profile", expected="lower-case letters, digits, - and _, at most 64")
    layout = _layout_or_here(ctx)
    path = layout.profile(name)
    if path.exists():
        raise UsageError(f"profiles/{name}.toml is there already", hint="edit it, or choose another name")
    if sys.stdin.isatty() and not (python or extends or torch or requirements):
        others = ", ".join(profile_names(layout))
        extends = click.prompt(f"extends ({others or 'no profiles yet'})", default="", show_default=False) or None
        if extends is None:
            python = click.prompt("Python", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
        torch = click.prompt("torch version (empty for none)", default="", show_default=False) or None
        if torch:
            cuda = click.prompt("its CUDA (or cpu)", default="12.8")
            gpu = (
                click.prompt("compute capability of the GPUs (empty for none)", default="", show_default=False) or None
            )
        words = click.prompt("requirements, separated by spaces", default="", show_default=False)
        requirements = tuple(words.split())
    for line in requirements:
        edit.name_of(line)
    text = edit.first_profile(
        description=description or name,
        extends=extends,
        python=python or (None if extends else f"{sys.version_info[0]}.{sys.version_info[1]}"),
        requirements=requirements,
        torch=torch,
        cuda=cuda,
        capability=gpu,
        count=count,
    )
    disk.write_atomically(path, text)
    try:
        load_profile(layout, name)
    except Exception:
        os.unlink(path)
        raise
    _ignore_store(layout)
    click.echo(f"wrote profiles/{name}.toml", err=True)
    click.echo(f"  {click.style('next', fg='cyan')}: envlock lock {name}", err=True)


def _layout_or_here(ctx: click.Context) -> Layout:
    try:
        return context.layout(ctx)
    except ProjectNotFound:
        chosen = ctx.find_root().params.get("project")
        return Layout(Path(chosen).absolute() if chosen else Path.cwd())


def _ignore_store(layout: Layout) -> None:
    """Keep the store out of git: it can be rebuilt from the locks."""
    path = layout.project / ".gitignore"
    text = path.read_text() if path.is_file() else ""
    if not any(line.strip().strip("/") == ".envlock" for line in text.splitlines()):
        disk.write_atomically(path, f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}/.envlock/\n")


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("packages", nargs=-1, required=True, metavar="PKG...")
@click.pass_context
def add(ctx: click.Context, name: str, packages: tuple[str, ...]) -> None:
    """Add requirements to a profile, keeping its comments and order; one that is there gets the new specifier.

    Example: envlock add train-cu128 'wandb>=0.20'
    """
    layout = context.layout(ctx)
    load_profile(layout, name)
    path = layout.profile(name)
    before = path.read_text()
    text = before
    for package in packages:
        text, replaced = edit.add(text, package)
        click.echo(f"{name}: {f'{replaced} -> ' if replaced else '+ '}{package}", err=True)
    _write_checked(layout, name, path, before, text)


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.argument("packages", nargs=-1, required=True, metavar="PKG...")
@click.pass_context
def remove(ctx: click.Context, name: str, packages: tuple[str, ...]) -> None:
    """Remove requirements from a profile, keeping its comments and order.

    Example: envlock remove train-cu128 wandb
    """
    layout = context.layout(ctx)
    profile = load_profile(layout, name)
    path = layout.profile(name)
    before = path.read_text()
    text = before
    for package in packages:
        text, gone = edit.remove(text, package)
        if gone is None:
            raise UsageError(
                f"profiles/{name}.toml does not ask for {package}", hint=_who_asks(layout, profile.extends, package)
            )
        click.echo(f"{name}: - {gone}", err=True)
    _write_checked(layout, name, path, before, text)


def _who_asks(layout: Layout, parents: tuple[str, ...], package: str) -> str:
    for parent in parents:
        if edit.remove(layout.profile(parent).read_text(), package)[1] is not None:
            return f"it comes from profiles/{parent}.toml: envlock remove {parent} {package}"
    return "a dependency goes when nothing asks for it any more: envlock why NAME PKG"


def _write_checked(layout: Layout, name: str, path: Path, before: str, text: str) -> None:
    """Write a profile that can be read; what cannot is not left behind."""
    disk.write_atomically(path, text)
    try:
        load_profile(layout, name)
    except Exception:
        disk.write_atomically(path, before)
        raise
    click.echo(f"  {click.style('next', fg='cyan')}: envlock lock {name}", err=True)


@click.command()
@click.argument("kind", type=click.Choice(["profile", "container"]), default="profile")
def schema(kind: str) -> None:
    """Print the JSON Schema of a format, for editors.

    Example: envlock schema profile > profile.schema.json
    """
    if kind == "container":
        from envlock.container.schema import container_schema

        click.echo(json.dumps(container_schema(), indent=1))
    else:
        click.echo(json.dumps(SCHEMAS[kind](), indent=1))
