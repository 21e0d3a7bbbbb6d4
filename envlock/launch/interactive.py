"""How each interactive shell is started so that a person's own settings come first and the environment last. Pure.

`~/.bashrc` is where PATH and LD_LIBRARY_PATH get their strays: read after the composition it would undo it. So the
shell is given a start file of ours, which reads the person's, then sets things right, then marks the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envlock.launch import environ, names, shim
from envlock.launch.activation import fish_quote
from envlock.launch.members import MEMBERS


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """What to execute, what to add to its environment, and the start files it reads (below the folder given)."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def start(shell: str, name: str, made: environ.Plan, env: Mapping[str, str], folder: str) -> Start:
    """Return how to start `shell` (a path) inside the composed environment `env`."""
    kind = shell.rpartition("/")[2]
    quoted = shim.quote(folder)
    home = env.get("HOME", "")
    if kind == "bash":
        text = (
            "[ ! -r /etc/bash.bashrc ] || . /etc/bash.bashrc\n[ ! -r ~/.bashrc ] || . ~/.bashrc\n"
            f'{_posix(made, env)}PS1="({name}) ${{PS1-}}"\nhash -r\nrm -rf -- {quoted}\n'
        )
        return Start(argv=(shell, "--rcfile", f"{folder}/bashrc", "-i"), files={"bashrc": text})
    if kind == "zsh":
        own = env.get("ZDOTDIR")
        theirs = shim.quote(own or home)
        back = f"ZDOTDIR={theirs}" if own else "unset ZDOTDIR"
        before = f"[ ! -r {theirs}/.zshenv ] || . {theirs}/.zshenv\nZDOTDIR={quoted}\n"
        text = (
            f"{back}\n[ ! -r {theirs}/.zshrc ] || . {theirs}/.zshrc\n"
            f'{_posix(made, env)}PS1="({name}) $PS1"\nhash -r\nrm -rf -- {quoted}\n'
        )
        return Start(argv=(shell, "-i"), env={"ZDOTDIR": folder}, files={".zshenv": before, ".zshrc": text})
    if kind == "fish":
        return Start(argv=(shell, "-i", "-C", _fish(name, made, env)))
    if kind in ("sh", "dash", "ash", "busybox", "ksh", "mksh"):
        own = env.get("ENV")
        back = f"ENV={shim.quote(own)}\n[ ! -r {shim.quote(own)} ] || . {shim.quote(own)}\n" if own else "unset ENV\n"
        text = f'{back}{_posix(made, env)}PS1="({name}) ${{PS1-$ }}"\nrm -rf -- {quoted}\n'
        return Start(argv=(shell, "-i"), env={"ENV": f"{folder}/rc"}, files={"rc": text})
    return Start(argv=(shell, "-i"))


def _sets(made: environ.Plan, env: Mapping[str, str]) -> dict[str, str]:
    chosen = ["PATH", *(name for name, _, _ in made.sets)]
    return {name: env[name] for name in chosen if name in env}


def _dropped(made: environ.Plan, env: Mapping[str, str]) -> list[str]:
    known = dict.fromkeys([*(name for name, _ in names.NAMES), *MEMBERS])
    return [name for name in known if name not in env and not environ.judge(name, made.passed)[0]]


def _posix(made: environ.Plan, env: Mapping[str, str]) -> str:
    lines = [f"unset {' '.join(_dropped(made, env))}"]
    lines += [f"{name}={shim.quote(value)}; export {name}" for name, value in _sets(made, env).items()]
    return "\n".join(lines) + "\n"


def _fish(name: str, made: environ.Plan, env: Mapping[str, str]) -> str:
    lines = [f"set -e {dropped}" for dropped in _dropped(made, env)]
    lines += [f"set -gx {variable} {fish_quote(value)}" for variable, value in _sets(made, env).items()]
    lines += [
        "functions -c fish_prompt _envlock_prompt",
        f"function fish_prompt; printf '%s ' '({name})'; _envlock_prompt; end",
    ]
    return "\n".join(lines)
