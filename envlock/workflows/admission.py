"""May this environment be launched now? Everything a ticket vouches for, established from the ground up."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlock import disk
from envlock.environment import stamp, store
from envlock.environment.distributions import site_packages, torch_build
from envlock.environment.inventory import Drift, drifted
from envlock.environment.seal import Seal
from envlock.errors import EnvlockError, FileError, LaunchRefused, UsageError
from envlock.launch import environ, fast, shim, ticket
from envlock.layout import Layout
from envlock.lock.files import load_lock
from envlock.verify.checks import ONLY_ON_A_GPU
from envlock.workflows import verify as verification


def verify(
    layout: Layout,
    name: str,
    *,
    no_gpu: bool,
    variables: Mapping[str, str],
    extra: Mapping[str, str] | None = None,
    count: int | None = None,
) -> dict[str, Any]:
    """Hold the current generation against its lock, its seal and the host; keep a ticket; return the ticket's facts.

    `extra` are variables given for this launch. The GPUs that the command will see are judged, no others: `count`
    replaces the profile's number of them. Of several at once one verifies, the others wait and compare with what it
    found. Raises LaunchRefused naming what is wrong and the command that mends it.
    """
    asked = time.time()
    environments = layout.environments(name)
    with contextlib.ExitStack() as turn:
        if environments.is_dir() and os.access(environments, os.W_OK):
            turn.enter_context(disk.locked(Path(ticket.folder(str(environments))) / ".verifying"))
        kept = ticket.read(str(environments))
        if count is None and kept is not None and kept[1] >= asked:
            view = ticket.view(compose(kept[0], variables, extra).env)
            if fast.matches(
                kept[0], project=str(layout.project), environments=str(environments), no_gpu=no_gpu, view=view
            ):
                return kept[0]
        return _verify(layout, name, no_gpu=no_gpu, variables=variables, extra=extra or {}, count=count)


def compose(
    facts: Mapping[str, Any], variables: Mapping[str, str], extra: Mapping[str, str] | None
) -> environ.Composition:
    """Return the environment a launch is to have. Raises LaunchRefused when the profile refers to what is not set."""
    try:
        return fast.compose(facts, variables, extra)
    except environ.UndefinedReference as error:
        raise LaunchRefused(
            str(error),
            where=f"profiles/{facts['profile']}.toml",
            hint=f"set {error.reference}, or --profile-env {error.name}=VALUE",
        ) from error


def _verify(
    layout: Layout,
    name: str,
    *,
    no_gpu: bool,
    variables: Mapping[str, str],
    extra: Mapping[str, str],
    count: int | None,
) -> dict[str, Any]:
    began = time.time()
    try:
        _, digest = load_lock(layout, name)
        generation, seal = _sealed(layout, name, digest)
        prefix = Path(seal.prefix)
        _undrifted(prefix, seal, name)
        _right_torch(prefix, seal, name)
        _statically_sound(layout, name, seal, no_gpu=no_gpu or not seal.declared.get("gpu"))
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
    facts: dict[str, Any] = {
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
        "attested": None,
        "views": [],
    }
    environments = str(layout.environments(name))
    kept = ticket.read(environments)
    if kept is not None and _same_but_gpus(kept[0], facts):  # what was proved of other GPUs stays so
        facts["attested"], facts["views"] = kept[0]["attested"], kept[0]["views"]
    if gpu and not no_gpu:
        view = ticket.view(compose(facts, variables, extra).env)
        _has_driver(seal, name, host)
        covered = _fits_these_gpus(layout, name, variables, extra, count)
        # What changes by itself is judged at every launch: the GPUs' memory, their other users, MIG slices.
        volatile = isinstance(gpu, dict) and (gpu.get("min-free-memory") or gpu.get("exclusive"))
        if covered and count is None and not volatile and not host["slices"] and ticket.tellable(view):
            earlier = [other for other in facts["views"] if other != view] if facts["attested"] == host else []
            facts["attested"], facts["views"] = host, [*earlier, view][-ticket.VIEWS :]
    ticket.write(environments, facts, _for_shim(layout, facts), began)
    return facts


def _same_but_gpus(kept: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Tell whether a ticket spoke for just this environment, whatever GPUs it was verified on."""
    return all(kept.get(key) == value for key, value in facts.items() if key not in ("attested", "views"))


def _statically_sound(layout: Layout, name: str, seal: Seal, *, no_gpu: bool) -> None:
    """Judge the files of a generation once a boot and host: they are sealed, and drift is looked for before this.

    Some of it is the host's (its glibc, its compiler), hence the boot and the host's name. A pass is remembered, a
    failure never; one with a GPU counts for launches without. Deleting the mark judges again.
    """
    here = f"{seal.environment_digest} {seal.profile_digest} {ticket.host_facts()['boot']} {os.uname().nodename}"
    good_enough = (f"{here} gpu\n", f"{here} no-gpu\n") if no_gpu else (f"{here} gpu\n",)
    mark = layout.attestations(name) / f"{seal.generation}.static"
    if mark.is_file() and mark.read_text() in good_enough:
        return
    report = verification.verify(layout, name, verification.Options(tiers=("static",)), {})
    _refuse_failed(report, name, leaving_out=ONLY_ON_A_GPU if no_gpu else frozenset())
    with contextlib.suppress(EnvlockError):  # another user's store: such launches judge each time
        disk.write_atomically(mark, good_enough[-1])


def _fits_these_gpus(
    layout: Layout, name: str, variables: Mapping[str, str], extra: Mapping[str, str], count: int | None
) -> bool:
    """Hold the stack against the host and the GPUs that the command will see.

    Return whether a passed probe is remembered for exactly those (verify/attestation.py).
    """
    options = verification.Options(tiers=("host", "probe"), count=count, extra=extra)
    report = verification.verify(layout, name, options, variables)
    _refuse_failed(report, name)
    return report.attested


def _refuse_failed(report: verification.Report, name: str, *, leaving_out: frozenset[str] = frozenset()) -> None:
    """Raise LaunchRefused for the first check that failed, with the next ones as details."""
    failed = [check for check in report.checks if check.status == "fail" and check.id not in leaving_out]
    if not failed:
        return
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
        vital = stamp.vital_paths(facts["prefix"])
    except (OSError, ValueError, IndexError):
        vital = []
    return shim.ticket_text(facts, project=str(layout.project), home=str(layout.home), vital=vital)


def _sealed(layout: Layout, name: str, digest: str) -> tuple[str, Seal]:
    prefix = store.current_prefix(layout, name)
    seal = store.read_seal(prefix)
    mend = f"envlock sync {name}"
    if not store.lies_where_built(seal, prefix):
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
    found = drifted(prefix)
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
    found = re.search(r"Kernel Module\b.*?\s([0-9]+\.[0-9]+(?:\.[0-9]+)?)(?:\s|$)", line)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _plain(table: object) -> dict[str, object]:
    """Return the declared env table as lists and dictionaries, which a ticket can keep."""
    if not isinstance(table, dict):
        return {}
    return {"set": dict(table.get("set") or {}), "pass": list(table.get("pass") or ())}
