"""Judging a machine against what a profile needs of it. Pure: facts in, checks out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envlock.verify.check import Check, Status
from envlock.verify.machine import Device, Gpus, Machine, Unavailable
from envlock.verify.visible import Visible, visible

_IDLE_BYTES = 1_500_000_000
"""What a GPU nobody uses may still show as used: driver, display, ECC bookkeeping."""
_SHM = "/dev/shm"  # noqa: S108 - looked at, never written to
_SHM_PER_RANK = 64 * 1024 * 1024
"""NCCL's segments for one rank, and some room (nccl#342: some 10 MB each, several of them)."""


def host_checks(
    declared: Mapping[str, Any] | None, floor: str | None, machine: Machine, gpus: Gpus | Unavailable
) -> tuple[Check, ...]:
    """Return every check of the host tier; `declared` is the profile's [gpu], None when it needs none."""
    if declared is None:
        return (_check("gpu.declared", "skip", found="the profile has no [gpu]"),)
    needed = str(declared.get("min-driver") or floor or "0")
    checks = [*_driver(needed, machine, gpus), *_nodes(machine)]
    if isinstance(gpus, Gpus):
        checks += _devices(declared, gpus.devices, visible(gpus.devices, machine.environ))
    checks += [*_environ(machine), *_limits(declared, machine)]
    return tuple(checks)


def _check(name: str, status: Status, **words: str) -> Check:
    return Check(id=name, tier="host", status=status, **words)


def older(one: str, other: str) -> bool:
    """Tell whether driver `one` is older than `other` (number by number: 580.9 is older than 580.65)."""

    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".") if part.isdecimal()]

    left, right = numbers(one), numbers(other)
    width = max(len(left), len(right))
    return left + [0] * (width - len(left)) < right + [0] * (width - len(right))


def _driver(needed: str, machine: Machine, gpus: Gpus | Unavailable) -> Iterator[Check]:
    where = "/proc/driver/nvidia/version"
    if machine.kernel_driver is None:
        yield _check(
            "driver.present",
            "fail",
            expected="the NVIDIA kernel module",
            found="none is loaded",
            where=where,
            remedy="load the driver on the host, or launch without a GPU: --no-gpu",
        )
        return
    yield _check("driver.present", "pass", found=machine.kernel_driver, where=where)
    if older(machine.kernel_driver, needed):
        yield _check(
            "driver.floor",
            "fail",
            expected=f"{needed} or newer",
            found=machine.kernel_driver,
            where=where,
            remedy="upgrade the host's driver, or use a profile for an earlier CUDA",
        )
    else:
        yield _check("driver.floor", "pass", expected=f"{needed} or newer", found=machine.kernel_driver, where=where)
    libraries = machine.user_libraries
    if libraries and machine.kernel_driver not in libraries:
        yield _check(
            "driver.match",
            "fail",
            expected=f"libcuda.so.{machine.kernel_driver}, as the kernel module",
            found=", ".join(f"libcuda.so.{version}" for version in libraries),
            where="the loader's folders",
            remedy="install the user-space driver of exactly the host's version, or reload the module after an upgrade",
        )
    elif isinstance(gpus, Unavailable):
        yield _check(
            "driver.match" if gpus.kind == "mismatch" else "driver.nvml",
            "fail",
            expected="NVML answers",
            found=gpus.reason,
            remedy={
                "mismatch": "install the user-space driver of exactly the host's version",
                "no-permission": "give this user access to /dev/nvidiactl",
                "no-library": "bring the driver's user space into this place (libnvidia-ml.so.1)",
            }.get(gpus.kind, "envlock container doctor, or nvidia-smi, tells more"),
        )
    else:
        yield _check("driver.match", "pass", found=", ".join(libraries) or gpus.driver)


def _nodes(machine: Machine) -> Iterator[Check]:
    bad = []
    for node in machine.nodes:
        name = "nvidia-uvm" if "uvm" in node.path else "nvidia"
        expected = machine.majors.get(name)
        if node.major is None:
            bad.append(
                (node, f"{node.path}: {node.error}", "create it or pass it in: nvidia-modprobe -c0 -u on the host")
            )
        elif expected is not None and node.major != expected:
            bad.append(
                (
                    node,
                    f"{node.path} has major {node.major}, the kernel says {expected} now",
                    "the uvm major is dynamic: start the container again with the present one",
                )
            )
        elif not node.openable:
            bad.append((node, f"{node.path}: {node.error}", "allow the device in the container's cgroup, or its mode"))
    for node, found, remedy in bad:
        yield _check(
            "devices.nodes",
            "fail",
            expected="a character device that opens",
            found=found,
            where=node.path,
            remedy=remedy,
        )
    if machine.nodes and not bad:
        yield _check("devices.nodes", "pass", found=f"{len(machine.nodes)} nodes open")


def _devices(declared: Mapping[str, Any], everything: tuple[Device, ...], seen: Visible) -> Iterator[Check]:
    if seen.wrong:
        yield _check(
            "gpu.visible",
            "fail",
            expected="CUDA_VISIBLE_DEVICES names GPUs that are there",
            found=seen.wrong,
            remedy=seen.remedy,
        )
        return
    chosen = seen.devices
    if seen.doubt:
        yield _check(
            "gpu.visible",
            "warn",
            expected="it is certain which GPUs CUDA will show",
            found=seen.doubt,
            remedy="name a slice by its UUID (nvidia-smi -L): CUDA_VISIBLE_DEVICES=MIG-...",
        )
    count = int(declared.get("count") or 1)
    if len(chosen) < count:
        hidden = f" ({len(everything)} without CUDA_VISIBLE_DEVICES)" if len(everything) > len(chosen) else ""
        yield _check(
            "gpu.count",
            "fail",
            expected=f"{count} GPUs",
            found=f"{len(chosen)}{hidden}",
            remedy="pass more GPUs in, or lower [gpu] count",
        )
    else:
        yield _check("gpu.count", "pass", expected=f"{count} GPUs", found=str(len(chosen)))
    wanted = str(declared.get("compute-capability"))
    wrong = [device for device in chosen if device.capability != wanted]
    if wrong:
        yield _check(
            "gpu.capability",
            "fail",
            expected=f"compute capability {wanted}",
            found=", ".join(f"GPU {device.index} {device.name}: {device.capability}" for device in wrong),
            remedy="run it on the GPUs it was made for, or change [gpu] compute-capability and lock again",
        )
    elif chosen:
        yield _check("gpu.capability", "pass", expected=wanted, found=f"{len(chosen)} x {chosen[0].name}")
    yield from _state(declared, chosen)


def _state(declared: Mapping[str, Any], chosen: tuple[Device, ...]) -> Iterator[Check]:
    need = int(declared.get("min-free-memory") or 0)
    tight = [device for device in chosen if device.memory_free < need]
    if tight:
        yield _check(
            "gpu.free-memory",
            "fail",
            expected=f"{_gib(need)} free on each GPU",
            found=", ".join(f"GPU {d.index}: {_gib(d.memory_free)} of {_gib(d.memory_total)} free" for d in tight),
            remedy="end what holds the memory (nvidia-smi on the host; a container lists no foreign processes)",
        )
    elif chosen:
        least = min(device.memory_free for device in chosen)
        yield _check("gpu.free-memory", "pass", expected=_gib(need), found=f"at least {_gib(least)} free on each")
    busy = [device for device in chosen if device.memory_used > _IDLE_BYTES]
    if busy:
        yield _check(
            "gpu.exclusive",
            "fail" if declared.get("exclusive") else "warn",
            expected="no other process on the GPUs",
            found=", ".join(f"GPU {device.index}: {_gib(device.memory_used)} in use" for device in busy),
            remedy="end the other processes, or choose other GPUs: envlock run --gpus",
        )
    elif chosen:
        yield _check("gpu.exclusive", "pass", found="nobody else uses them")
    for device in chosen:
        at = f"GPU {device.index}"
        if device.compute_mode == "prohibited":
            yield _check(
                "gpu.compute-mode", "fail", found=f"{at}: prohibited", remedy=f"nvidia-smi -i {device.index} -c 0"
            )
        elif device.compute_mode.startswith("exclusive"):
            yield _check(
                "gpu.compute-mode",
                "warn",
                found=f"{at}: {device.compute_mode}; one process only",
                remedy=f"nvidia-smi -i {device.index} -c 0 when several ranks share it",
            )
        if device.mig:
            yield _check("gpu.mig", "warn", found=f"{at} is in MIG mode: a slice has fewer SMs and less memory")
        if device.remap_pending or device.ecc_errors:
            yield _check(
                "gpu.health",
                "warn",
                found=f"{at}: "
                + (
                    "row remapping is pending"
                    if device.remap_pending
                    else f"{device.ecc_errors} uncorrected ECC errors"
                ),
                remedy="reset the GPU when it is idle, and watch it",
            )
        if device.throttle:
            yield _check("gpu.throttle", "warn", found=f"{at} is slowed down: {', '.join(device.throttle)}")
        if device.link and device.link_max and device.link[1] < device.link_max[1]:
            yield _check(
                "gpu.link",
                "warn",
                expected=f"PCIe width x{device.link_max[1]}",
                found=f"{at}: x{device.link[1]}",
                remedy="reseat the card or its riser; throughput between GPUs suffers",
            )


def _environ(machine: Machine) -> Iterator[Check]:
    leaks = [
        f"{name}={machine.environ[name]}"
        for name in ("LD_PRELOAD", "CUDA_HOME", "CUDA_PATH")
        if machine.environ.get(name)
    ]
    beside = {folder: _foreign(folder, held, machine.kernel_driver) for folder, held in machine.loader_path.items()}
    leaks += [f"LD_LIBRARY_PATH: {folder or 'the current folder'} ({what})" for folder, what in beside.items() if what]
    if leaks:
        yield _check(
            "environ.leaks",
            "warn",
            expected="no variable in the caller's shell that brings foreign CUDA libraries or tools",
            found="; ".join(leaks),
            remedy="envlock run drops them; a process started otherwise loads what lies there",
        )
    elif machine.loader_path:
        yield _check("environ.leaks", "pass", found="LD_LIBRARY_PATH leads to nothing but the driver's own libraries")
    else:
        yield _check("environ.leaks", "pass", found="no foreign library path")


def _foreign(folder: str, held: tuple[str, ...] | None, driver: str | None) -> str:
    """Return what a folder of the loader's path has that a GPU stack must not take from there; empty for nothing.

    The driver's own libraries belong to the driver, whoever names their folder; a stub of libcuda, or that of another
    driver (cuda-compat), does not.
    """
    if not folder.startswith("/"):
        return "depends on where a process starts"
    if held is None:
        return "cannot be looked into"
    foreign = []
    for name in held:
        version = name.removeprefix("libcuda.so").removeprefix(".")
        if name.startswith(("libnvidia-", "libcudadebugger")) or (name.startswith("libcuda.so") and version == driver):
            continue
        foreign.append(f"{name}, not the driver {driver}'s" if name.startswith("libcuda.so") else name)
    return ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")


def _limits(declared: Mapping[str, Any], machine: Machine) -> Iterator[Check]:
    count = int(declared.get("count") or 1)
    need = count * _SHM_PER_RANK
    if count > 1 and machine.shm_free < need:
        yield _check(
            "host.shm",
            "fail" if machine.shm_total < need else "warn",
            expected=f"{_gib(need)} free in /dev/shm for {count} ranks",
            found=f"{_gib(machine.shm_free)} of {_gib(machine.shm_total)}",
            where=_SHM,
            remedy="enlarge it, or remove stale /dev/shm/nccl-* files",
        )
    else:
        yield _check("host.shm", "pass", found=f"{_gib(machine.shm_free)} free", where=_SHM)
    if machine.memlock is not None and machine.memlock < 64 * 1024 * 1024:
        yield _check(
            "host.memlock",
            "warn",
            expected="unlimited, for RDMA and pinned memory",
            found=f"{machine.memlock // 1024} KiB",
            remedy="ulimit -l unlimited (LimitMEMLOCK=infinity in a unit)",
        )
    if count > 1 and machine.iommu and "pt" not in machine.iommu and "off" not in machine.iommu:
        yield _check(
            "host.iommu",
            "warn",
            expected="iommu=pt, or off, for peer-to-peer copies",
            found=machine.iommu,
            where="/proc/cmdline",
            remedy="with translation on, the first all-reduce can hang on PCIe cards: try verify --collective",
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
