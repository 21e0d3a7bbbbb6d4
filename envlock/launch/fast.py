"""The fast path of `envlock run`: compare with the ticket of an earlier verification, compose, exec.

Whatever does not match returns to the caller, and the whole verification runs. No decision is taken here that the slow
path would take otherwise. Standard library only, and of that only what starts fast: no json, re, pathlib, typing.
"""

from __future__ import annotations

import os
import time

from envlock import where
from envlock.environment import stamp
from envlock.launch import command, environ, lease, options, ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn


def run(words: Sequence[str]) -> None:
    """Become the command that `words` (after the program's name) ask for, or return to let the slow path look at it."""
    project, words = where.without_project_option(words)
    if not words or words[0] != "run":
        return
    if os.environ.get("ENVLOCK_LOG"):
        return
    try:
        request = options.parse(words[1:])
    except options.BadWords:
        return
    if not request.plain:
        return
    found = where.locate(project, os.environ)
    if found is None:
        return
    attempt(found[0], found[1], request, os.environ)


def attempt(project: str, home: str, request: options.Request, variables: Mapping[str, str]) -> None:
    """Become the command when everything is as the ticket says; return otherwise."""
    name = request.name
    if "/" in name or name.startswith("."):
        return
    environments = f"{home}/envs/{name}"
    kept = ticket.read(environments)
    if kept is None:
        return
    facts, began = kept
    no_gpu = request.has("--no-gpu") or variables.get("ENVLOCK_NO_GPU", "") not in ("", "0")
    try:
        composition = compose(facts, variables)
    except environ.UndefinedReference:
        return
    view = ticket.view(composition.env)
    if not matches(facts, project=project, environments=environments, no_gpu=no_gpu, view=view):
        return
    if facts["gpu"] and any(
        "-backend" in word or word == "--enable-pcie-oneshot-allreduce" for word in request.command
    ):
        return  # verify/launch_arguments.py has something to say about such words
    prefix = facts["prefix"]
    if not _unchanged(prefix, environments, began):
        return
    try:
        argv = command.resolve(
            request.command, prefix=prefix, profile=name, path=composition.env["PATH"], shims=f"{home}/bin"
        )
        lease.take(prefix)
        become(argv, composition.env)
    except (command.Refusal, OSError):
        return


def matches(facts: Mapping[str, Any], *, project: str, environments: str, no_gpu: bool, view: str) -> bool:
    """Tell whether generation, lock, interpreter, and for a GPU launch the host, are those of the ticket.

    For a GPU launch, `view` (which GPUs the command will see, `ticket.view`) must be one that was verified, too.
    """
    try:
        if os.readlink(f"{environments}/current") != facts["generation"]:
            return False
    except OSError:
        return False
    if not _same(facts["prefix"], f"{environments}/{facts['generation']}"):
        return False  # the store was moved
    if ticket.identity(f"{project}/locks/{facts['profile']}.toml") != facts["lock"]:
        return False
    if ticket.identity(facts["base_python"]) != facts["interpreter"]:
        return False
    if no_gpu or not facts["gpu"]:
        return True
    return bool(facts["attested"]) and view in facts["views"] and ticket.host_facts() == facts["attested"]


def _same(sealed: str, here: str) -> bool:
    """Tell whether the sealed path is this one, maybe through a link."""
    try:
        return sealed == here or os.path.samefile(sealed, here)
    except OSError:
        return False


def _unchanged(prefix: str, environments: str, began: float) -> bool:
    """Compare the files with the stamp: the vital ones, or all when the last full scan is too old to stand."""
    due = not 0 <= time.time() - began < ticket.WINDOW
    if due:
        due = not 0 <= time.time() - ticket.scan_began(environments) < ticket.WINDOW
    now = time.time()
    try:
        if not (stamp.unchanged(prefix) if due else stamp.differing(prefix) is None):
            return False
    except (OSError, ValueError):
        return False
    if due:
        ticket.renew(environments, now)
    return True


def compose(
    facts: Mapping[str, Any], variables: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> environ.Composition:
    """Return the child's environment for a ticket's facts. Raises environ.UndefinedReference."""
    return environ.apply(
        environ.plan_of(facts), variables, foreign=command.foreign_folders(variables.get("PATH", "")), extra=extra
    )


def become(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process: pid, terminal and descriptors stay. Raises OSError when the kernel refuses."""
    import _signal  # type: ignore[import-not-found] # `signal` itself builds enumerations, which takes a millisecond

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores these two, and what is ignored stays so through exec
    os.execve(argv[0], argv, dict(env))  # noqa: S606 - that is the point
