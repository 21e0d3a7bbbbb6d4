"""What a container can declare. Values only: no file, no default that depends on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["lxc", "proxmox"]
ENGINES: tuple[Engine, ...] = ("lxc", "proxmox")
Driver = Literal["bind", "cdi", "packages", "hook", "none"]
DRIVERS: tuple[Driver, ...] = ("bind", "cdi", "packages", "hook", "none")
MountUse = Literal["data", "project", "store", "uv-cache"]
MOUNT_USES: tuple[MountUse, ...] = ("data", "project", "store", "uv-cache")

STATE = "/var/lib/envlock"
"""What envlock keeps inside a container lies here unless a mount or `[paths]` says otherwise."""
TOOL = "/opt/envlock"
"""envlock itself, a venv of its own, inside a container."""
PLACE_FILE = "/etc/envlock/place"
"""Names the container to the envlock that runs inside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A folder of the host seen inside. A missing source stops the container from starting: nothing is optional."""

    source: str | None
    """Absolute on the host; None: the project's folder, or uv's cache folder, as `use` says."""
    target: str
    use: MountUse = "data"
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpus:
    """Which GPUs go in, with what rights, and where the driver's user space comes from."""

    devices: Literal["all"] | tuple[str, ...] = "all"
    """`all`, or indexes and UUIDs (`0`, `GPU-...`)."""
    driver: Driver = "bind"
    """bind: the host's libraries; cdi: those that nvidia-ctk on the host lists; packages: exactly the kernel module's
    version, installed; hook: nvidia's LXC hook."""
    mode: str = "0666"
    """Mode of the device nodes inside, octal, where the engine makes nodes of its own."""
    gid: int | None = None
    capabilities: tuple[str, ...] = ("compute", "utility")
    """What nvidia's hook is asked for; its own default is `utility` alone, without libcuda."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the container may use; None: no limit."""

    cores: int | None = None
    memory: int | None = None
    """Bytes."""
    shm: int | None = None
    """Bytes of /dev/shm; None: the engine's own (half of the memory)."""
    memlock: Literal["unlimited"] | int | None = None
    """Bytes a process may lock in memory; with GPUs unlimited unless said otherwise: pinned transfers, RDMA."""
    disk: int = 8
    """GiB of the root file system, where the engine makes a volume (Proxmox)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """Where the project, the store and uv's cache lie inside."""

    project: str = f"{STATE}/project"
    store: str = f"{STATE}/store"
    uv_cache: str = f"{STATE}/uv-cache"


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """One container as declared."""

    name: str
    description: str = ""
    engine: Engine
    host: str | None = None
    """Where the engine runs, as ssh understands it (`root@pve`); None: this machine."""
    id: int | None = None
    """Proxmox's number."""
    distribution: str = "debian"
    release: str = "bookworm"
    template: str | None = None
    """Proxmox: the volume of the template (`local:vztmpl/...`)."""
    storage: str | None = None
    """Proxmox: where the root file system goes."""
    packages: tuple[str, ...] = ()
    """Names of distribution packages."""
    privileged: bool = False
    start_at_boot: bool = False
    network: str = "none"
    """`none` shares the host's; for LXC a bridge's name; for Proxmox the text after `--net0`."""
    gpus: Gpus | None = None
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()
    paths: Paths = Paths()
    env: Mapping[str, str] = field(default_factory=dict)
    """Set for every command that envlock runs inside."""
    config: tuple[str, ...] = ()
    """Further lines of the engine's own configuration, taken as they are."""

    @property
    def guest(self) -> str:
        """Return what the engine calls it: Proxmox's number, LXC's name."""
        return str(self.id) if self.engine == "proxmox" else self.name

    def mount(self, use: MountUse) -> Mount | None:
        """Return the first mount of that use."""
        return next((mount for mount in self.mounts if mount.use == use), None)
