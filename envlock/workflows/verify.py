"""Verifying: which environment, which tiers, in which order, and what a passed probe is remembered for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from envlock.environment import origin
from envlock.environment.distributions import site_packages
from envlock.launch import ticket
from envlock.layout import Layout
from envlock.verify import attestation, host, nvml, probe
from envlock.verify.check import Check, Tier, holds
from envlock.verify.host_checks import host_checks
from envlock.verify.machine import Gpus, Machine, Unavailable
from envlock.verify.probe_checks import collective_checks, device_checks, probe_checks
from envlock.verify.static import static_checks
from envlock.verify.visible import Visible, visible
from envlock.workflows import verify_subject
from envlock.workflows.verify_subject import Subject

TIERS: tuple[Tier, ...] = ("static", "host", "probe")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to verify."""

    tiers: tuple[Tier, ...] = ()
    """Empty: all that this machine allows."""
    deep: bool = False
    python: Path | None = None
    """Judge this interpreter's environment instead of a generation."""
    capability: str | None = None
    """Instead of the profile's."""
    count: int | None = None
    no_gpu: bool = False
    collective: bool = False
    timeout: float = probe.TIMEOUT
    fresh: bool = False
    """Probe again, whatever is remembered."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Variables given for one launch; they win over the profile's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a verification found."""

    profile: str
    generation: str | None
    checks: tuple[Check, ...]
    tiers: tuple[Tier, ...] = ()
    """Those that were judged."""
    attested: bool = False
    """A passed probe is remembered for exactly the GPUs that a launch would see."""

    @property
    def ok(self) -> bool:
        """Tell whether no check failed."""
        return holds(self.checks)

    def as_dict(self) -> dict[str, object]:
        """Return what `verify --json` promises."""
        return {
            "profile": self.profile,
            "generation": self.generation,
            "ok": self.ok,
            "checks": [check.as_dict() for check in self.checks],
        }


def verify(
    layout: Layout | None,
    name: str | None,
    options: Options,
    environ: Mapping[str, str],
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Judge an environment tier by tier; a tier that fails does not keep the next from being judged.

    Raises EnvironmentMissing, UsageError, FileError: what cannot be judged at all.
    """
    if options.python is not None:
        subject = verify_subject.foreign(
            layout, name, options.python, capability=options.capability, count=options.count
        )
    else:
        subject = verify_subject.managed(layout, name, capability=options.capability, count=options.count)
    machine = host.observe(environ)
    tiers = options.tiers or _possible(subject, machine, options)
    checks: list[Check] = []
    if "static" in tiers:
        say("reading files")
        checks += static_checks(
            subject.prefix,
            profile=verify_subject.for_static(subject),
            lock=subject.lock,
            lock_digest=subject.lock_digest,
            seal=subject.seal,
            deep=options.deep,
            driver=machine.kernel_driver,
            cache=None if layout is None else layout.cache,
        )
    gpu = subject.declared.get("gpu")
    attested = False
    if "host" in tiers or "probe" in tiers:
        say("asking the driver")
        gpus = nvml.observe()
        env = verify_subject.environment(subject, environ, options.extra)
        machine = _as_launched(machine, env)
        if "host" in tiers:
            floor = subject.lock.torch.driver_floor if subject.lock is not None and subject.lock.torch else None
            checks += host_checks(gpu, floor or (subject.seal.driver_floor if subject.seal else None), machine, gpus)
        if "probe" in tiers:
            told, attested = _probe(layout, subject, options, env, machine, gpus, say)
            checks += told
    if layout is not None and subject.seal is not None and not holds(checks):
        ticket.forget(str(layout.environments(subject.name)))  # the next launch judges for itself
    if not options.tiers and len(tiers) < len(TIERS):
        left = ", ".join(tier for tier in TIERS if tier not in tiers)
        why = "--no-gpu" if options.no_gpu else "no NVIDIA driver here" if gpu else "the profile has no [gpu]"
        checks.append(Check(id="tiers.left-out", tier="static", status="skip", found=f"{left}: {why}"))
    return Report(
        profile=subject.name,
        generation=None if subject.seal is None else subject.seal.generation,
        checks=tuple(checks),
        tiers=tuple(tiers),
        attested=attested,
    )


def _as_launched(machine: Machine, env: Mapping[str, str]) -> Machine:
    """Return the machine with the words about GPUs that a launch would have; all others stay the caller's."""
    others = {name: value for name, value in machine.environ.items() if name not in ticket.VIEW}
    return replace(machine, environ=others | {name: env[name] for name in ticket.VIEW if name in env})


def _possible(subject: Subject, machine: Machine, options: Options) -> tuple[Tier, ...]:
    if options.no_gpu or not subject.declared.get("gpu") or machine.kernel_driver is None:
        return ("static",)
    return TIERS


def _probe(
    layout: Layout | None,
    subject: Subject,
    options: Options,
    env: Mapping[str, str],
    machine: Machine,
    gpus: Gpus | Unavailable,
    say: Callable[[str], None],
) -> tuple[tuple[Check, ...], bool]:
    """Return what a probe found, and whether it is remembered for all that a launch would see."""
    if isinstance(gpus, Unavailable):
        untold = f"the driver does not answer: {gpus.reason}"
        return (
            Check(id="probe.end", tier="probe", status="fail", expected="a driver", found=untold, remedy="--tier host"),
        ), False
    gpu: Mapping[str, Any] = subject.declared.get("gpu") or {}
    declared = int(gpu.get("count") or 1)
    seen = visible(gpus.devices, env)
    # Every GPU that a launch would see is probed, since the launched may take any of them; --count asks for fewer.
    count = declared if options.count is not None or seen.doubt else max(declared, len(seen.devices))
    kept, now = _remembered(layout, subject, options, seen, count, gpus.driver, machine.boot_id)
    whole = kept is not None and count >= len(seen.devices)
    if kept is not None and attestation.holds(kept, now) and not options.fresh and not options.collective:
        told = attestation.read(kept) or {}
        when = told.get("time", "an earlier time")
        found = f"passed at {when} under this seal, driver, GPUs and boot"
        return (Check(id="probe.attested", tier="probe", status="pass", found=found),), whole
    say(f"probing {count} GPUs")
    facts = probe.run(
        subject.python,
        env,
        count=count,
        imports=verify_subject.imports(subject.declared),
        triton=(site_packages(subject.prefix) / "triton").is_dir(),
        timeout=options.timeout,
    )
    checks = probe_checks(
        facts,
        prefix=str(subject.prefix),
        capability=gpu.get("compute-capability"),
        cuda=verify_subject.cuda(subject),
        count=count,
        versions=verify_subject.versions(subject.lock),
        allocator=verify_subject.allocator(subject.declared),
    )
    checks += device_checks(facts, seen)
    if options.collective:
        ranks = min(count, 2)
        say(f"an all-reduce over {ranks} GPUs")
        checks += collective_checks(probe.collective(subject.python, env, ranks=ranks))
    if kept is None:
        return checks, False
    if not holds(checks):
        attestation.forget(kept)
        return checks, False
    if seen.by_number and not probe.uuids(facts):
        return checks, False  # which cards these numbers mean was not proved
    attestation.remember(kept, now, time=origin.now())
    return checks, whole


def _remembered(
    layout: Layout | None, subject: Subject, options: Options, seen: Visible, count: int, driver: str, boot: str
) -> tuple[Path | None, dict[str, str]]:
    """Return where a passed probe is remembered and for what; no place when it could not vouch for anything.

    Only the GPUs that are probed are vouched for, and only for what the profile itself declares.
    """
    if layout is None or subject.seal is None or options.capability is not None or seen.wrong or seen.doubt:
        return None, {}
    declared = json.dumps({key: value for key, value in subject.declared.items() if key != "gpu"}, sort_keys=True)
    return layout.attestations(subject.name) / subject.seal.generation, attestation.basis(
        seal=subject.seal.environment_digest,
        driver=driver,
        gpus=[device.uuid for device in seen.devices[:count]],
        boot=boot,
        declared=hashlib.sha256(declared.encode()).hexdigest(),
    )
