"""`envlock activate`: print what turns the running shell into the verified environment."""

from __future__ import annotations

import os
import sys

import click

from envlock.cli import context
from envlock.errors import UsageError

SHELLS = ("sh", "bash", "zsh", "fish")


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.option("--shell", "kind", type=click.Choice(SHELLS), help="Default: fish when called from fish, else sh.")
@click.option("--no-gpu", is_flag=True, help="Ask for no driver and no GPU.")
@click.option("--no-prompt", is_flag=True, help="Leave the prompt as it is.")
@click.pass_context
def activate(ctx: click.Context, name: str, kind: str | None, no_gpu: bool, no_prompt: bool) -> None:
    """Print shell text that enters profile NAME in the running shell, once verified; `envlock_deactivate` leaves it.

    It is verified now and not again: what is launched for days goes through `envlock run`.

    Example: eval "$(envlock activate train-cu128)"        (fish: envlock activate train-cu128 | source)
    """
    from envlock.launch import activation, lease  # late: completion needs none of it
    from envlock.workflows import shell as workflow

    layout = context.layout(ctx)
    chosen = kind or ("fish" if _parent() == "fish" else "sh")
    if sys.stdout.isatty():
        way = f"envlock activate {name} | source" if chosen == "fish" else f'eval "$(envlock activate {name})"'
        raise UsageError("activate prints text for a shell to take in; nothing was entered", hint=way)
    workflow.here(layout, name)
    if "ENVLOCK_ACTIVATED" in os.environ:
        flags = [*(["--no-gpu"] if no_gpu else []), *(["--no-prompt"] if no_prompt else [])]
        words = [*context.envlock_words(layout), "activate", "--shell", chosen, *flags, name]
        printed = activation.fish_again(words) if chosen == "fish" else activation.posix_again(words)
    else:
        launch = workflow.enter(layout, name, os.environ, no_gpu=no_gpu)
        after = {**launch.composition.env, "ENVLOCK_ACTIVATED": name}
        words = [] if workflow.finds("envlock", after["PATH"]) else context.envlock_words(None)
        if chosen == "fish":
            printed = activation.fish(name, os.environ, after, prompt=not no_prompt, envlock=words)
        else:
            held = f"{after['VIRTUAL_ENV']}/{lease.FILE}"
            printed = activation.posix(name, os.environ, after, prompt=not no_prompt, envlock=words, lease=held)
    sys.stdout.buffer.write(os.fsencode(printed))
    sys.stdout.buffer.flush()


def _parent() -> str:
    try:
        with open(f"/proc/{os.getppid()}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
