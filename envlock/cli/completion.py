"""`envlock completion`: what makes a shell complete commands, options and profile names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from envlock.launch.hooks.kind import File, Kind, Target

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    r"""Print the completion script for SHELL.

    \b
    bash: eval "$(envlock completion bash)"       in ~/.bashrc
    zsh:  eval "$(envlock completion zsh)"        in ~/.zshrc, after compinit
    fish: envlock completion fish > ~/.config/fish/completions/envlock.fish

    Example: envlock completion bash > /etc/bash_completion.d/envlock
    """
    click.echo(source(shell), nl=False)


def source(shell: str) -> str:
    """Return click's own completion script for `envlock` in that shell."""
    from envlock.cli.main import cli_group  # late: main loads this module by name

    found = get_completion_class(shell)
    assert found is not None
    made = found(cli_group, {}, "envlock", "_ENVLOCK_COMPLETE")
    # The template itself: source() of bash starts a bash first, to look at its version.
    return (made.source_template % made.source_vars()).lstrip("\n")


def files(_target: Target) -> tuple[File, ...]:
    """Return the three scripts, under the names by which each shell's own folder knows them."""
    return (
        File(path="bash/envlock", text=source("bash")),
        File(path="zsh/_envlock", text=source("zsh")),
        File(path="fish/envlock.fish", text=source("fish")),
    )


KIND = Kind(
    name="completion",
    purpose="completion for bash, zsh and fish",
    files=files,
    after="envlock completion --help tells which file goes where",
    takes_profile=False,
    several=True,
)
