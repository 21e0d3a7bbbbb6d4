"""Launching: verify whatever the ticket does not vouch for, compose, and hand back what is to be executed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlock import system
from envlock.declare.files import load_profile
from envlock.environment import build, store
from envlock.environment.distributions import site_packages, torch_build
from envlock.environment.inventory import Drift, drift
from envlock.environment.seal import Seal
from envlock.errors import (
    CommandNotExecutable,
    CommandNotFound,
    EnvlockError,
    FileError,
    LaunchRefused,
    UsageError,
)
from envlock.launch import command, environ, fast, lease, shim, stamp, ticket
from envlock.launch.options import Request
from envlock.layout import Layout
from envlock.lock.files import load_lock
from envlock.verify.check import Check
from envlock.verify.launch_arguments import lint
from envlock.workflows import sync
from envlock.workflows import verify as verification
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
    facts = verify(layout, name, no_gpu=no_gpu, variables=variables)
    if profile.container is not None and not variables.get("ENVLOCK_INSIDE"):
        ticket.forget(str(layout.environments(name)))  # the next launch belongs in the container, unless told again
    extra = dict(pair.split("=", 1) for pair in request.values.get("--profile-env", ()))
    held: Claim | None = None
    if request.value("--gpus") is not None:
        held = claim(name, str(request.value("--gpus")))
        extra["CUDA_VISIBLE_DEVICES"] = ",".join(held.uuids)
    cwd = request.value("--cwd")
    if cwd is not None:
        if not os.path.isdir(cwd):
            raise UsageError(f"--cwd: no such folder: {cwd}")
        cwd = os.path.abspath(cwd)
        extra["PWD"] = cwd
        os.chdir(cwd)
    try:
        composition = fast.compose(facts, variables, extra)
        argv = command.resolve(
            request.command,
            prefix=facts["prefix"],
            profile=name,
            path=composition.env["PATH"],
            shims=str(layout.shim(name).parent),
        )
    except environ.UndefinedReference as error:
        raise LaunchRefused(
            str(error),
            where=f"profiles/{name}.toml",
            hint=f"set {error.reference}, or --profile-env {error.name}=VALUE",
        ) from error
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
        "time": build.now(),
        "user": sync.user(),
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


def verify(layout: Layout, name: str, *, no_gpu: bool, variables: Mapping[str, str]) -> dict[str, Any]:
    """Hold the current generation against its lock, its seal and the host; keep a ticket; return the ticket's facts.

    Of several at once one verifies, the others wait and compare with what it found. Raises LaunchRefused naming what is
    wrong and the command that mends it.
    """
    asked = time.time()
    environments = layout.environments(name)
    with contextlib.ExitStack() as turn:
        if environments.is_dir() and os.access(environments, os.W_OK):
            turn.enter_context(system.locked(Path(ticket.folder(str(environments))) / ".verifying"))
        kept = ticket.read(str(environments))
        if (
            kept is not None
            and kept[1] >= asked
            and fast.matches(kept[0], project=str(layout.project), environments=str(environments), no_gpu=no_gpu)
        ):
            return kept[0]
        return _verify(layout, name, no_gpu=no_gpu)


def _verify(layout: Layout, name: str, *, no_gpu: bool) -> dict[str, Any]:
    began = time.time()
    try:
        _, digest = load_lock(layout, name)
        generation, seal = _sealed(layout, name, digest)
        prefix = layout.generation(name, generation)
        _undrifted(prefix, seal, name)
        stamp.settle(str(prefix))
        _right_torch(prefix, seal, name)
    except (LaunchRefused, FileError, UsageError):
        raise
    except EnvlockError as error:
        raise LaunchRefused(
            error.message,
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint=error.hint or f"envlock sync {name}",
            details=error.details,
        ) from error
    gpu = seal.declared.get("gpu")
    host = ticket.host_facts()
    if gpu and not no_gpu:
        _has_driver(seal, name, host)
        _fits_these_gpus(layout, name, variables)
    volatile = isinstance(gpu, dict) and (gpu.get("min-free-memory") or gpu.get("exclusive"))
    facts = {
        "profile": name,
        "generation": generation,
        "prefix": str(prefix),
        "lock": ticket.identity(str(layout.lock(name))),
        "base_python": seal.base_python,
        "interpreter": ticket.identity(seal.base_python),
        "torch": None if seal.torch is None else seal.torch.version,
        "digest": seal.environment_digest,
        "cache_root": str(layout.cache / "jit"),
        "env": _plain(seal.declared.get("env")),
        "gpu": bool(gpu),
        "attested": host if gpu and not no_gpu and not volatile else None,
    }
    environments = str(layout.environments(name))
    kept = ticket.read(environments)
    if no_gpu and kept is not None and kept[0].get("generation") == generation:
        facts["attested"] = kept[0].get("attested")  # a launch without a GPU does not undo what one with it proved
    ticket.write(environments, facts, _for_shim(layout, facts), began)
    return facts


def _fits_these_gpus(layout: Layout, name: str, variables: Mapping[str, str]) -> None:
    """Hold the stack against the host and its GPUs; a passed probe is remembered (verify/attestation.py)."""
    report = verification.verify(layout, name, verification.Options(tiers=("host", "probe")), variables)
    failed = [check for check in report.checks if check.status == "fail"]
    if failed:
        first = failed[0]
        raise LaunchRefused(
            f"{first.id}: {first.found}",
            where=first.where or None,
            expected=first.expected or None,
            hint=first.remedy or f"envlock verify {name}",
            details=[f"{check.id}: {check.found}" for check in failed[1:6]],
        )


def _for_shim(layout: Layout, facts: dict[str, Any]) -> str:
    try:
        vital = stamp.vital_paths(stamp.read_vital(facts["prefix"]))
    except (OSError, ValueError, IndexError):
        vital = []
    return shim.ticket_text(facts, project=str(layout.project), home=str(layout.home), vital=vital)


def _sealed(layout: Layout, name: str, digest: str) -> tuple[str, Seal]:
    prefix = store.current_prefix(layout, name)
    seal = store.read_seal(prefix)
    mend = f"envlock sync {name}"
    if seal.prefix != str(prefix):
        raise LaunchRefused(
            "the store was moved: an environment only works where it was built",
            expected=seal.prefix,
            found=str(prefix),
            hint=f"envlock sync --rebuild {name}",
        )
    if seal.lock_digest != digest:
        raise LaunchRefused(
            f"the environment of {name} is stale: its lock has changed since it was synced",
            where=str(layout.lock(name)),
            expected=f"lock {digest[:12]}",
            found=f"generation {seal.generation}, built from lock {seal.lock_digest[:12]}",
            hint=mend,
        )
    if not os.access(seal.base_python, os.X_OK):
        raise LaunchRefused(
            f"the Python this environment stands on is gone: {seal.base_python}",
            expected=f"Python {seal.python}",
            found="no such file",
            hint=f"envlock sync --rebuild {name}",
        )
    return seal.generation, seal


def _undrifted(prefix: Path, seal: Seal, name: str) -> None:
    found = drift(prefix, deep=False)
    if found:
        first = found[0]
        raise LaunchRefused(
            f"the environment of {name} has drifted from its seal",
            where=f"{prefix}/{first.path}",
            expected=f"generation {seal.generation} as sealed on {seal.created}",
            found=_drifted(first),
            hint=f"envlock sync --rebuild {name}",
            details=[_drifted(item) for item in found[1:6]]
            + ([f"and {len(found) - 6} more"] if len(found) > 6 else []),
        )


def _drifted(item: Drift) -> str:
    owner = f" of package {item.package}" if item.package else ""
    return f"{item.path}{owner} {item.kind}" + (f": {item.detail}" if item.detail else "")


def _right_torch(prefix: Path, seal: Seal, name: str) -> None:
    if seal.torch is None:
        return
    torch = torch_build(site_packages(prefix))
    if torch is None or torch.cuda != seal.torch.cuda or torch.version != seal.torch.version:
        raise LaunchRefused(
            f"the torch in the environment of {name} is not the sealed build",
            where=f"{prefix}: torch/version.py",
            expected=f"torch {seal.torch.version}, CUDA {seal.torch.cuda}",
            found="no torch" if torch is None else f"torch {torch.version}, CUDA {torch.cuda}",
            hint=f"envlock sync --rebuild {name}",
        )


def _has_driver(seal: Seal, name: str, host: Mapping[str, str]) -> None:
    floor = seal.driver_floor
    found = driver_version(host["driver"])
    if found is not None and (floor is None or _numbers(found) >= _numbers(floor)):
        return
    wanted = f"an NVIDIA driver {floor} or newer" if floor else "an NVIDIA driver"
    if host["driver"]:
        message = f"the NVIDIA driver is too old for CUDA {seal.torch.cuda if seal.torch else ''} of profile {name}"
        hint = f"install driver {floor} on the host; or envlock run --no-gpu {name} -- ... to launch without a GPU"
    else:
        message = f"profile {name} asks for a GPU, and this machine has no NVIDIA driver loaded"
        hint = f"envlock run --no-gpu {name} -- ... to launch without a GPU"
    raise LaunchRefused(
        message, where=ticket.DRIVER, expected=wanted, found=found or host["driver"] or "none", hint=hint
    )


def driver_version(line: str) -> str | None:
    """Return the driver's version from the first line of /proc/driver/nvidia/version, open and closed modules alike."""
    found = re.search(r"Kernel Module\b.*?\s(\d+\.\d+(?:\.\d+)?)(?:\s|$)", line)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _plain(table: object) -> dict[str, object]:
    """Return the declared env table as lists and dictionaries, which a ticket can keep."""
    if not isinstance(table, dict):
        return {}
    return {"set": dict(table.get("set") or {}), "pass": list(table.get("pass") or ())}
