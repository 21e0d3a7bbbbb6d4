"""What was observed of a machine and its GPUs. Values only; what could not be observed says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Unavailable:
    """Why something could not be observed: no driver, no permission, a mismatch, a broken library."""

    kind: str
    """`no-library`, `no-driver`, `mismatch`, `no-permission`, `error`."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One GPU as NVML tells it; None where this card or driver does not tell."""

    index: int
    uuid: str
    name: str
    capability: str
    """Major.minor."""
    memory_total: int
    """Bytes."""
    memory_used: int
    """Bytes; counts every process, also those a container cannot list."""
    compute_mode: str = "default"
    """`default`, `exclusive-process`, `prohibited`."""
    mig: bool = False
    slices: tuple[Device, ...] = ()
    """MIG slices, each like a device with the number of its card."""
    remap_pending: bool = False
    ecc_errors: int | None = None
    """Uncorrected, since the last reset."""
    throttle: tuple[str, ...] = ()
    """Active slow-down reasons that are not idleness."""
    link: tuple[int, int] | None = None
    """PCIe generation and width now."""
    link_max: tuple[int, int] | None = None

    @property
    def memory_free(self) -> int:
        """Bytes nobody uses."""
        return self.memory_total - self.memory_used


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpus:
    """What NVML answered."""

    driver: str
    """`580.159.04`."""
    cuda: str
    """The newest CUDA this driver knows, `13.0`."""
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One /dev/nvidia* character device."""

    path: str
    major: int | None
    """None: it is not there."""
    openable: bool = False
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What the operating system tells, without asking the driver for anything."""

    kernel_driver: str | None
    """Version of the loaded kernel module; None: none is loaded."""
    open_modules: bool | None
    user_libraries: tuple[str, ...]
    """Versions of libcuda.so.X.Y.Z found where the loader looks."""
    nodes: tuple[Node, ...]
    majors: Mapping[str, int]
    """`nvidia`, `nvidia-uvm`, ... -> major number now, from /proc/devices."""
    shm_total: int
    """Bytes of /dev/shm; 0: not mounted."""
    shm_free: int
    memlock: int | None
    """Soft limit in bytes; None: unlimited."""
    iommu: str
    """What the kernel command line says of it."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The caller's variables that matter here."""
    loader_path: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Folder of LD_LIBRARY_PATH -> the libraries in it that a GPU stack also brings, or that are the driver's.

    None: it cannot be looked into. A driver's library stands as what it is a link to, `libcuda.so.580.95.05`.
    """
    boot_id: str = ""
