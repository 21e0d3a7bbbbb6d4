"""Launching: admit the environment, compose, and hand back what is to be executed."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlock.declare.files import load_profile
from envlock.environment import origin, store
from envlock.errors import (
    CommandNotExecutable,
    CommandNotFound,
    LaunchRefused,
    UsageError,
)
from envlock.launch import command, environ, fast, lease, ticket
from envlock.launch.options import Request
from envlock.layout import Layout
from envlock.verify.check import Check
from envlock.verify.launch_arguments import lint
from envlock.workflows import admission, sync
from envlock.workflows.gpus import Claim, claim


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What is to be executed, and all that is worth telling about it."""

    argv: tuple[str, ...]
    composition: environ.Composition
    facts: Mapping[str, Any]
    cwd: str | None
    warnings: tuple[Check, ...] = ()
    """Arguments that name a backend without code for the declared GPU."""
    gpus: tuple[str, ...] = ()
    """UUIDs held by this process, when --gpus was given."""
    claim: Claim | None = field(default=None, repr=False)


def prepare(layout: Layout, request: Request, variables: Mapping[str, str], say: sync.Say) -> Launch:
    """Verify an environment in full and compose a launch from it; nothing is executed here.

    Raises LaunchRefused (and its kinds for a command that cannot be run) with the command that mends it; UsageError and
    FileError when the words or a file are wrong.
    """
    name = request.name
    profile = load_profile(layout, name)  # says which profiles there are when this is none
    if request.has("--sync"):
        sync.sync_one(layout, name, sync.Options(), variables, say)
    no_gpu = request.has("--no-gpu") or variables.get("ENVLOCK_NO_GPU", "") not in ("", "0")
    held = None if request.value("--gpus") is None else claim(name, str(request.value("--gpus")))
    uuids = () if held is None else held.uuids
    extra = dict(pair.split("=", 1) for pair in request.values.get("--profile-env", ()))
    if held is not None:
        extra["CUDA_VISIBLE_DEVICES"] = ",".join(held.uuids)
    facts = admission.verify(layout, name, no_gpu=no_gpu, variables=variables, extra=extra, count=len(uuids) or None)
    if profile.container is not None and not variables.get("ENVLOCK_INSIDE"):
        ticket.forget(str(layout.environments(name)))  # the next launch belongs in the container, unless told again
    cwd = request.value("--cwd")
    if cwd is not None:
        if not os.path.isdir(cwd):
            raise UsageError(f"--cwd: no such folder: {cwd}")
        cwd = os.path.abspath(cwd)
        extra["PWD"] = cwd
        os.chdir(cwd)
    try:
        composition = admission.compose(facts, variables, extra)
        argv = command.resolve(
            request.command,
            prefix=facts["prefix"],
            profile=name,
            path=composition.env["PATH"],
            shims=str(layout.shim(name).parent),
        )
    except command.Refusal as error:
        kind = CommandNotFound if error.code == CommandNotFound.exit_code else CommandNotExecutable
        raise kind(error.message, found=error.found, hint=error.hint) from error
    warnings = _lint(facts, request, composition.env)
    return Launch(
        argv=tuple(argv),
        warnings=warnings,
        composition=composition,
        facts=facts,
        cwd=cwd,
        gpus=held.uuids if held else (),
        claim=held,
    )


def _lint(facts: Mapping[str, Any], request: Request, env: Mapping[str, str]) -> tuple[Check, ...]:
    """Return warnings about the command's arguments; raise LaunchRefused for them under [kernels] lint = "error"."""
    declared = store.read_seal(Path(facts["prefix"])).declared
    gpu, kernels = declared.get("gpu"), declared.get("kernels")
    how = kernels.get("lint", "warn") if isinstance(kernels, Mapping) else "warn"
    if not isinstance(gpu, Mapping) or how == "off":
        return ()
    found = lint(request.command, str(gpu.get("compute-capability")), environ=dict(env))
    if found and how == "error":
        raise LaunchRefused(
            found[0].found,
            where=f"profiles/{facts['profile']}.toml: [kernels]: lint",
            expected=found[0].expected,
            hint=found[0].remedy,
        )
    return found


def entry(launch: Launch, request: Request) -> dict[str, object]:
    """Return what the journal keeps of a launch."""
    return {
        "time": origin.now(),
        "user": origin.user(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "profile": launch.facts["profile"],
        "generation": launch.facts["generation"],
        "environment_digest": launch.facts["digest"],
        "verdict": "no-gpu" if request.has("--no-gpu") else "pass",
        "gpus": list(launch.gpus),
        "cwd": os.getcwd(),
        "command": shlex.join(request.command),
        "argv": list(launch.argv),
    }


def execute(launch: Launch) -> None:
    """Become the command. Returns never; raises LaunchRefused when the generation is gone or the kernel refuses."""
    try:
        lease.take(launch.facts["prefix"])
    except OSError as error:
        raise LaunchRefused(
            "this generation is being removed", found=str(error), hint=f"envlock sync {launch.facts['profile']}"
        ) from error
    try:
        fast.become(list(launch.argv), launch.composition.env)
    except OSError as error:
        raise CommandNotExecutable(
            f"{launch.argv[0]}: {error.strerror}", found=str(error), hint="file shows what it is"
        ) from error
