"""Entering an environment with a shell: the running one (`activate`) or a new one (`shell`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from envlock import disk
from envlock.declare.files import load_profile
from envlock.errors import UsageError
from envlock.launch import environ, interactive
from envlock.launch.options import Request
from envlock.layout import Layout
from envlock.workflows import place, run


def container_of(layout: Layout, name: str) -> str | None:
    """Return the container that the profile's environment lives in, seen from outside of it; None for this machine."""
    profile = load_profile(layout, name)
    return None if place.inside_of() is not None else profile.container


def enter(layout: Layout, name: str, variables: Mapping[str, str], *, no_gpu: bool) -> run.Launch:
    """Verify and compose as a launch does. Raises LaunchRefused."""
    flags = frozenset({"--no-gpu"} if no_gpu else ())
    return run.prepare(layout, Request(name, ("python",), flags, {}), variables, lambda _name, _step: None)


def here(layout: Layout, name: str) -> None:
    """Refuse a profile whose environment is in a container. Raises UsageError."""
    container = container_of(layout, name)
    if container is not None:
        raise UsageError(
            f"the environment of {name} is in container {container}; a shell out here cannot enter it",
            where=f"profiles/{name}.toml: container",
            hint=f"envlock shell {name}",
        )


def shell_launch(layout: Layout, launch: run.Launch, shell: str) -> run.Launch:
    """Return the launch of an interactive shell, its start files written. They delete themselves once read."""
    name = launch.facts["profile"]
    folder = layout.cache / "shell" / f"{name}-{os.getpid()}"
    env = {**launch.composition.env, "SHELL": shell}
    started = interactive.start(shell, name, environ.plan_of(launch.facts), env, str(folder))
    for file, text in started.files.items():
        disk.write_atomically(folder / file, os.fsencode(text), mode=0o600)
    composition = environ.Composition({**env, **started.env}, launch.composition.steps)
    return replace(launch, argv=started.argv, composition=composition)


def finds(program: str, path: str) -> bool:
    """Tell whether a shell with this PATH finds the program."""
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in path.split(":") if folder)
