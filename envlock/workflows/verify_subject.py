"""What is verified: a generation of the store, or any interpreter's environment, and what it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envlock.declare.files import load_profile
from envlock.declare.profile import Gpu, Kernels, Profile, launch_inputs
from envlock.environment import store
from envlock.environment.distributions import site_packages
from envlock.environment.seal import Seal
from envlock.errors import EnvironmentMissing, LockStale, UsageError
from envlock.launch import command
from envlock.launch import environ as composition
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.lock.files import load_lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An environment, and what was declared, locked and sealed of it."""

    name: str
    prefix: Path
    python: Path
    profile: Profile | None
    lock: Lock | None
    lock_digest: str | None
    seal: Seal | None
    declared: Mapping[str, Any]


def managed(layout: Layout | None, name: str | None, *, capability: str | None, count: int | None) -> Subject:
    """Return the current generation of a profile. Raises UsageError, EnvironmentMissing, FileError."""
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
    return Subject(
        name=name,
        prefix=prefix,
        python=prefix / "bin" / "python",
        profile=profile,
        lock=lock,
        lock_digest=digest,
        seal=seal,
        declared=_declared(launch_inputs(profile), capability, count),
    )


def foreign(
    layout: Layout | None, name: str | None, python: Path, *, capability: str | None, count: int | None
) -> Subject:
    """Return any interpreter's environment, judged by the profile named, or by --gpu, or by nothing but itself."""
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
        except LockStale:  # none yet; a damaged one is an error here as everywhere
            pass
    declared = launch_inputs(profile) if profile is not None else {"gpu": None, "kernels": {}, "env": {}}
    return Subject(
        name=name or str(prefix),
        prefix=prefix,
        python=python,
        profile=profile,
        lock=lock,
        lock_digest=digest,
        seal=None,
        declared=_declared(declared, capability, count),
    )


def for_static(subject: Subject) -> Profile | None:
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


def _declared(inputs: Mapping[str, Any], capability: str | None, count: int | None) -> dict[str, Any]:
    declared = dict(inputs)
    gpu = dict(declared.get("gpu") or {})
    if capability is not None:
        gpu["compute-capability"] = capability
    if count is not None:
        gpu["count"] = count
    declared["gpu"] = gpu or None
    return declared


def environment(subject: Subject, environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment a launch would have, so that the probe sees what the launch will see.

    Raises UsageError when the profile refers to a variable that is not set.
    """
    if subject.seal is None:
        return {**environ, **extra}
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
    folders = command.foreign_folders(environ.get("PATH", ""))
    try:
        return composition.apply(plan, environ, foreign=folders, extra=extra).env
    except composition.UndefinedReference as error:
        raise UsageError(
            str(error), where=f"profiles/{subject.name}.toml", hint=f"set {error.reference}, then verify again"
        ) from error


def imports(declared: Mapping[str, Any]) -> Sequence[str]:
    """Return the modules to import: those that must have kernels."""
    required = (declared.get("kernels") or {}).get("require") or []
    return [name for name in required if name != "torch" and name.isidentifier()]


def cuda(subject: Subject) -> str | None:
    """Return the CUDA build that torch must be of."""
    if subject.profile is not None and subject.profile.torch is not None:
        return subject.profile.torch.cuda
    return subject.seal.torch.cuda if subject.seal is not None and subject.seal.torch is not None else None


def versions(lock: Lock | None) -> dict[str, str]:
    """Return the locked versions of NCCL and cuDNN, whatever CUDA suffix their packages carry."""
    found = {}
    for package in () if lock is None else lock.packages:
        for library in ("nccl", "cudnn"):
            if package.name.startswith(f"nvidia-{library}-cu"):
                found[library] = package.version
    return found


def allocator(declared: Mapping[str, Any]) -> str | None:
    """Return the allocator settings that the profile asks for."""
    assigned = (declared.get("env") or {}).get("set") or {}
    return assigned.get("PYTORCH_CUDA_ALLOC_CONF") or assigned.get("PYTORCH_ALLOC_CONF")
