"""Verifying from the lock alone: what a CI machine without environment, GPU or network can tell of a host."""

from __future__ import annotations

from envlock.declare.files import load_profile
from envlock.declare.profile import Profile
from envlock.layout import Layout
from envlock.lock.cuda import OPAQUE_DEVICE_CODE
from envlock.lock.document import Lock
from envlock.lock.files import load_lock
from envlock.lock.freshness import compare
from envlock.verify.check import Check
from envlock.verify.host_checks import older
from envlock.workflows.verify import Report


def from_lock(layout: Layout, name: str, *, driver: str | None, capability: str | None) -> Report:
    """Judge what a lock alone tells of a host: the driver floor, and the device code it recorded for a capability."""
    profile = load_profile(layout, name)
    lock, _ = load_lock(layout, name)
    checks = [_agreement(profile, lock), *_floor(lock, driver)]
    wanted = capability or (None if profile.gpu is None else profile.gpu.compute_capability)
    if wanted is not None:
        checks += _coverage(profile, lock, wanted)
    return Report(profile=name, generation=None, checks=tuple(checks))


def _agreement(profile: Profile, lock: Lock) -> Check:
    changes = compare(profile, lock)
    if not changes:
        return Check(id="lock.fresh", tier="static", status="pass", found="the lock answers its profile")
    return Check(
        id="lock.fresh",
        tier="static",
        status="fail",
        expected="a lock made for this profile",
        found="; ".join(map(str, changes)),
        where=f"locks/{profile.name}.toml",
        remedy=f"envlock lock {profile.name}",
    )


def _floor(lock: Lock, driver: str | None) -> list[Check]:
    floor = None if lock.torch is None else lock.torch.driver_floor
    if driver is None or floor is None:
        return [Check(id="driver.floor", tier="host", status="skip", found=f"the floor is {floor or 'none'}")]
    if older(driver, floor):
        return [
            Check(
                id="driver.floor",
                tier="host",
                status="fail",
                expected=f"{floor} or newer",
                found=driver,
                remedy="upgrade the host's driver, or use a profile for an earlier CUDA",
            )
        ]
    return [Check(id="driver.floor", tier="host", status="pass", expected=f"{floor} or newer", found=driver)]


def _coverage(profile: Profile, lock: Lock, capability: str) -> list[Check]:
    known = [
        package
        for package in lock.packages
        if package.device_code is not None and package.name not in OPAQUE_DEVICE_CODE
    ]
    if not known:
        return [
            Check(
                id="kernels.coverage",
                tier="static",
                status="skip",
                found="the lock records no device code",
                remedy=f"envlock sync {profile.name}, then envlock lock --inspect {profile.name}: it reads them",
            )
        ]
    checks = []
    for package in known:
        code = package.device_code
        assert code is not None
        counted = code.coverage.get(capability)
        if counted is None:
            checks.append(
                Check(
                    id="kernels.coverage",
                    tier="static",
                    status="skip",
                    found=f"{package.name} was counted for {', '.join(code.coverage)}, not for {capability}",
                )
            )
        elif not counted.sass + counted.ptx and counted.none:
            required = package.name == "torch" or package.name.replace("-", "_") in profile.kernels.require
            checks.append(
                Check(
                    id="kernels.coverage",
                    tier="static",
                    status="fail" if required else "warn",
                    expected=f"code for {capability}",
                    found=f"{package.name}: none in {counted.none} containers; it has {', '.join(code.targets)}",
                    remedy="choose a version built for this GPU",
                )
            )
    if all(check.status == "skip" for check in checks) and not checks:
        checks.append(
            Check(
                id="kernels.coverage",
                tier="static",
                status="pass",
                expected=f"code for {capability}",
                found=f"{len(known)} packages with device code, each has some for {capability}",
            )
        )
    return checks
