"""Verifying: which environment, which tiers, in which order, and what a passed probe is remembered for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envlock.declare.files import load_profile
from envlock.declare.profile import Gpu, Kernels, Profile, launch_inputs
from envlock.environment import build, store
from envlock.environment.distributions import site_packages
from envlock.environment.seal import Seal
from envlock.errors import EnvironmentMissing, EnvlockError, LockStale, UsageError
from envlock.launch import command
from envlock.launch import environ as composition
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.lock.files import load_lock
from envlock.verify import attestation, host, nvml, probe
from envlock.verify.check import Check, Tier, holds
from envlock.verify.host_checks import host_checks, visible
from envlock.verify.machine import Gpus, Machine, Unavailable
from envlock.verify.probe_checks import collective_checks, probe_checks
from envlock.verify.static import static_checks

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a verification found."""

    profile: str
    generation: str | None
    checks: tuple[Check, ...]

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Subject:
    name: str
    prefix: Path
    python: Path
    profile: Profile | None
    lock: Lock | None
    lock_digest: str | None
    seal: Seal | None
    declared: Mapping[str, Any]


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
    subject = _foreign(layout, name, options) if options.python else _managed(layout, name, options)
    machine = host.observe(environ)
    tiers = options.tiers or _possible(subject, machine, options)
    checks: list[Check] = []
    if "static" in tiers:
        say("reading files")
        checks += static_checks(
            subject.prefix,
            profile=_for_static(subject),
            lock=subject.lock,
            lock_digest=subject.lock_digest,
            seal=subject.seal,
            deep=options.deep,
            driver=machine.kernel_driver,
            cache=None if layout is None else layout.cache,
        )
    gpu = subject.declared.get("gpu")
    gpus: Gpus | Unavailable | None = None
    if "host" in tiers or "probe" in tiers:
        say("asking the driver")
        gpus = nvml.observe()
    if "host" in tiers and gpus is not None:
        floor = subject.lock.torch.driver_floor if subject.lock is not None and subject.lock.torch else None
        checks += host_checks(gpu, floor or (subject.seal.driver_floor if subject.seal else None), machine, gpus)
    if "probe" in tiers and gpus is not None:
        checks += _probe(layout, subject, options, environ, machine, gpus, say)
    if not options.tiers and len(tiers) < len(TIERS):
        left = ", ".join(tier for tier in TIERS if tier not in tiers)
        why = "--no-gpu" if options.no_gpu else "no NVIDIA driver here" if gpu else "the profile has no [gpu]"
        checks.append(Check(id="tiers.left-out", tier="static", status="skip", found=f"{left}: {why}"))
    return Report(
        profile=subject.name,
        generation=None if subject.seal is None else subject.seal.generation,
        checks=tuple(checks),
    )


def _managed(layout: Layout | None, name: str | None, options: Options) -> _Subject:
    if layout is None or name is None:
        raise UsageError("which profile?", hint="envlock verify NAME, or --python PATH")
    profile = load_profile(layout, name)
    lock: Lock | None = None
    digest: str | None = None
    try:
        lock, digest = load_lock(layout, name)
    except LockStale:
        lock = None
    prefix = store.current_prefix(layout, name)
    seal = store.read_seal(prefix)
    if store.lies_where_built(seal, prefix):
        prefix = Path(seal.prefix)  # not the link it may have been reached through
    return _Subject(
        name=name,
        prefix=prefix,
        python=prefix / "bin" / "python",
        profile=profile,
        lock=lock,
        lock_digest=digest,
        seal=seal,
        declared=_declared(launch_inputs(profile), options),
    )


def _foreign(layout: Layout | None, name: str | None, options: Options) -> _Subject:
    """Return any interpreter's environment, judged by the profile named, or by --gpu, or by nothing but itself."""
    assert options.python is not None
    python = options.python
    if python.is_dir():
        python = python / "bin" / "python"
    if not python.exists():
        raise EnvironmentMissing(f"there is no interpreter at {python}", hint="--python PATH/TO/bin/python")
    prefix = python.absolute().parent.parent
    try:
        site_packages(prefix)
    except FileNotFoundError as error:
        raise EnvironmentMissing(str(error), hint="--python PATH/TO/bin/python of a venv") from error
    profile = load_profile(layout, name) if layout is not None and name is not None else None
    lock, digest = None, None
    if layout is not None and name is not None:
        try:
            lock, digest = load_lock(layout, name)
        except EnvlockError:
            lock, digest = None, None
    declared = launch_inputs(profile) if profile is not None else {"gpu": None, "kernels": {}, "env": {}}
    return _Subject(
        name=name or str(prefix),
        prefix=prefix,
        python=python,
        profile=profile,
        lock=lock,
        lock_digest=digest,
        seal=None,
        declared=_declared(declared, options),
    )


def _for_static(subject: _Subject) -> Profile | None:
    """Return the profile that files are judged by: with the GPU of --gpu, or with nothing but it."""
    gpu = subject.declared.get("gpu")
    if gpu is None or "compute-capability" not in gpu:
        return subject.profile
    chosen = Gpu(compute_capability=str(gpu["compute-capability"]), count=int(gpu.get("count") or 1))
    if subject.profile is None:
        minor = site_packages(subject.prefix).parent.name.removeprefix("python")
        return Profile(name=subject.name, python=minor, gpu=chosen, kernels=Kernels(require=("torch",)))
    before = subject.profile.gpu
    return replace(
        subject.profile, gpu=chosen if before is None else replace(before, compute_capability=chosen.compute_capability)
    )


def _declared(inputs: Mapping[str, Any], options: Options) -> dict[str, Any]:
    declared = dict(inputs)
    gpu = dict(declared.get("gpu") or {})
    if options.capability is not None:
        gpu["compute-capability"] = options.capability
    if options.count is not None:
        gpu["count"] = options.count
    declared["gpu"] = gpu or None
    return declared


def _possible(subject: _Subject, machine: Machine, options: Options) -> tuple[Tier, ...]:
    if options.no_gpu or not subject.declared.get("gpu") or machine.kernel_driver is None:
        return ("static",)
    return TIERS


def _probe(
    layout: Layout | None,
    subject: _Subject,
    options: Options,
    environ: Mapping[str, str],
    machine: Machine,
    gpus: Gpus | Unavailable,
    say: Callable[[str], None],
) -> tuple[Check, ...]:
    if isinstance(gpus, Unavailable):
        return (Check(id="probe.end", tier="probe", status="skip", found=f"the driver does not answer: {gpus.reason}"),)
    gpu: Mapping[str, Any] = subject.declared.get("gpu") or {}
    count = int(gpu.get("count") or 1)
    kept = None
    now: dict[str, str] = {}
    seen = visible(gpus.devices, environ.get("CUDA_VISIBLE_DEVICES"))
    # Only the GPUs that are probed are vouched for, and only for what the profile itself declares.
    if layout is not None and subject.seal is not None and not isinstance(seen, str) and options.capability is None:
        kept = layout.attestations(subject.name) / subject.seal.generation
        now = attestation.basis(
            seal=subject.seal.environment_digest,
            driver=gpus.driver,
            gpus=[device.uuid for device in seen[:count]],
            boot=machine.boot_id,
        )
        if attestation.holds(kept, now) and not options.fresh and not options.collective:
            told = attestation.read(kept) or {}
            return (
                Check(
                    id="probe.attested",
                    tier="probe",
                    status="pass",
                    found=f"passed at {told.get('time', 'an earlier time')} under this seal, driver, GPUs and boot",
                ),
            )
    env = _environment(subject, environ)
    say(f"probing {count} GPUs")
    facts = probe.run(
        subject.python,
        env,
        count=count,
        imports=_imports(subject.declared),
        triton=(site_packages(subject.prefix) / "triton").is_dir(),
        timeout=options.timeout,
    )
    checks = probe_checks(
        facts,
        prefix=str(subject.prefix),
        capability=gpu.get("compute-capability"),
        cuda=_cuda(subject),
        count=count,
        versions=_versions(subject.lock),
        allocator=_allocator(subject.declared),
    )
    if options.collective and count > 1:
        say("an all-reduce over two ranks")
        checks += collective_checks(probe.collective(subject.python, env))
    if kept is not None:
        if holds(checks):
            attestation.remember(kept, now, time=build.now())
        else:
            attestation.forget(kept)
    return checks


def _environment(subject: _Subject, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment a launch would have, so that the probe sees what the launch will see."""
    if subject.seal is None:
        return dict(environ)
    plan = composition.plan(
        subject.seal.declared.get("env") or {},  # type: ignore[arg-type]
        profile=subject.name,
        generation=subject.seal.generation,
        prefix=str(subject.prefix),
        torch=None if subject.seal.torch is None else subject.seal.torch.version,
        digest=subject.seal.environment_digest,
        cache_root=str(subject.prefix.parent.parent.parent / "cache" / "jit"),
        verdict="probing",
    )
    foreign = command.foreign_folders(environ.get("PATH", ""))
    return composition.apply(plan, environ, foreign=foreign).env


def _imports(declared: Mapping[str, Any]) -> Sequence[str]:
    required = (declared.get("kernels") or {}).get("require") or []
    return [name for name in required if name != "torch" and name.isidentifier()]


def _cuda(subject: _Subject) -> str | None:
    if subject.profile is not None and subject.profile.torch is not None:
        return subject.profile.torch.cuda
    return subject.seal.torch.cuda if subject.seal is not None and subject.seal.torch is not None else None


def _versions(lock: Lock | None) -> dict[str, str]:
    """Return the locked versions of NCCL and cuDNN, whatever CUDA suffix their packages carry."""
    found = {}
    for package in () if lock is None else lock.packages:
        for library in ("nccl", "cudnn"):
            if package.name.startswith(f"nvidia-{library}-cu"):
                found[library] = package.version
    return found


def _allocator(declared: Mapping[str, Any]) -> str | None:
    assigned = (declared.get("env") or {}).get("set") or {}
    return assigned.get("PYTORCH_CUDA_ALLOC_CONF") or assigned.get("PYTORCH_ALLOC_CONF")
