"""The option `--in NAME` of every command that can run in a container, and what it does."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, cast

import click

from envlock.cli.context import layout
from envlock.cli.main import WORDS
from envlock.errors import EnvlockError, UsageError
from envlock.layout import Layout


def in_place(
    callback: Callable[..., Any], *, writes: Callable[[dict[str, Any]], tuple[str, ...]] = lambda _: ()
) -> Callable[..., Any]:
    """Give a command `--in NAME`: it then runs in that container, or in the one its profile names.

    To stand right below `@click.command()`; the command itself sees nothing of it. `writes` tells, from the command's
    values, which files of the project it makes: they are brought back.
    """

    @functools.wraps(callback)
    def wrapped(ctx: click.Context, *args: Any, in_container: str | None, **kwargs: Any) -> Any:
        inside = os.environ.get("ENVLOCK_INSIDE")
        if inside and in_container not in (None, "here", inside):
            raise UsageError(
                f"this is {inside}, and from inside there is no way into {in_container}",
                hint="type it on the machine that declares both",
            )
        if not inside and in_container != "here":
            names = _names(kwargs)
            chosen = in_container or (_named(layout(ctx), names) if names else None)
            if chosen is not None:
                from envlock.workflows import place

                _, words = place.split(ctx.meta[WORDS])
                ctx.exit(place.forward(layout(ctx), chosen, words, os.environ, made=writes(kwargs)))
        return callback(*args, **kwargs)

    option = click.option(
        "--in",
        "in_container",
        metavar="NAME",
        help="Run in this container (`here`: not in the one the profile names).",
        shell_complete=_complete,
    )
    return option(click.pass_context(cast("Any", wrapped)))


def _names(values: dict[str, Any]) -> tuple[str, ...]:
    for key in ("names", "name", "profile"):
        value = values.get(key)
        if value:
            return (value,) if isinstance(value, str) else tuple(value)
    return ()


def _named(where: Layout, names: tuple[str, ...]) -> str | None:
    """Return the container the named profiles are meant for; unreadable ones are the command's business."""
    from envlock.declare.files import load_profile

    found = set()
    for name in names:
        try:
            found.add(load_profile(where, name).container)
        except EnvlockError:
            return None
    if len(found) > 1:
        raise UsageError(
            "these profiles live in different containers",
            found=", ".join(sorted(name or "here" for name in found)),
            hint="name them one after another, or give --in",
        )
    return found.pop() if found else None


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from envlock.container.files import container_names

    try:
        return [name for name in container_names(layout(ctx)) if name.startswith(incomplete)]
    except EnvlockError:
        return []
