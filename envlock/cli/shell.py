"""`envlock shell`: an interactive shell inside the verified environment, with a marked prompt."""

from __future__ import annotations

import os

import click

from envlock.cli import context


@click.command()
@click.argument("name", shell_complete=context.complete_profiles)
@click.option("--no-gpu", is_flag=True, help="Ask for no driver and no GPU.")
@click.pass_context
def shell(ctx: click.Context, name: str, no_gpu: bool) -> None:
    """Start your $SHELL inside the sealed environment of profile NAME, once verified; `exit` leaves it.

    Your own start files are read first, the environment is put right after them, and the prompt says its name.

    Example: envlock shell train-cu128
    """
    from envlock.workflows import place, run  # late: completion needs none of it
    from envlock.workflows import shell as workflow

    layout = context.layout(ctx)
    container = workflow.container_of(layout, name)
    if container is not None:
        flags = ["--no-gpu"] if no_gpu else []
        words = ["run", *flags, name, "--", "sh", "-c", 'exec "${SHELL:-sh}" -i']
        ctx.exit(place.forward(layout, container, words, os.environ))
    launch = workflow.enter(layout, name, os.environ, no_gpu=no_gpu)
    run.execute(workflow.shell_launch(layout, launch, os.environ.get("SHELL") or "/bin/sh"))
