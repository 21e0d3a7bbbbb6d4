"""What was found on a host and of a container on it. Values only; `observe` fills them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from envlock.container.devices import Gpu, Node

State = Literal["absent", "stopped", "running"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """The machine the engine runs on."""

    reached: bool = True
    """False: nothing below is known."""
    root: bool = True
    """Commands there run as root."""
    machine: str = "x86_64"
    cgroup: Literal[1, 2] = 2
    apparmor: bool = False
    missing_programs: tuple[str, ...] = ()
    majors: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    """Version of the kernel module."""
    libraries: tuple[str, ...] = ()
    """The driver's libraries and programs, absolute."""
    cdi: tuple[str, ...] = ()
    """The same as nvidia-ctk lists it, asked for only when the declaration says so."""
    absent_sources: tuple[str, ...] = ()
    """Sources of mounts that are not there."""
    hook: bool = False
    """nvidia-container-cli and LXC's hook for it are there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InsideFacts:
    """What a running container says of itself."""

    missing_packages: tuple[str, ...] = ()
    python: str | None = None
    """Major.minor of its python3; None: it has none."""
    tool: str | None = None
    """Digest of the envlock that is installed there."""
    place: str | None = None
    driver_links: bool = True
    """False: libcuda.so.1 is not there although the host's libraries are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestFacts:
    """The container as its engine knows it."""

    state: State = "absent"
    ours: bool = False
    """envlock made it."""
    rootfs: bool = False
    base_cached: bool = False
    config: tuple[str, ...] = ()
    """The lines of its configuration that envlock would write; for Proxmox all lines."""
    started_with: str | None = None
    """Digest of the configuration it was last started with."""
    inside: InsideFacts | None = None
