"""Judge a container from both sides: what the host has, what the container sees, which of them to mend. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from envlock.container.config import selection
from envlock.container.declaration import Container
from envlock.container.devices import CONTROL, Node
from envlock.container.facts import HostFacts
from envlock.verify.check import Check, Status

_GIB = 1 << 30
_CLOCK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class InsideReport:
    """What the container said of itself."""

    majors: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    opened: Mapping[str, str] = field(default_factory=dict)
    """Node -> what opening it for reading and writing said, empty when it opened."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """`libcuda.so.1` and `libnvidia-ml.so.1` -> the file the loader would take."""
    shm: int | None = None
    """Bytes of /dev/shm; None: there is none."""
    apparmor: str = ""
    """The profile it is confined by."""
    glibc: str = ""
    clock_off: float = 0.0
    """Seconds between the container's clock and this machine's, the way there and back taken out."""
    unresolved: tuple[str, ...] = ()
    """Names that could not be looked up."""
    free: Mapping[str, int] = field(default_factory=dict)
    """Folder -> bytes free on its disk."""
    unwritable: tuple[str, ...] = ()
    python: str = ""
    memlock: str = ""


def _check(name: str, status: Status, side: str, expected: str, found: str, remedy: str = "") -> Check:
    return Check(
        id=f"container.{name}",
        tier="host",
        status=status,
        expected=expected,
        found=found,
        where=side,
        remedy="" if status in ("pass", "skip") else remedy,
    )


def judge(container: Container, host: HostFacts, inside: InsideReport, glibc_floor: str | None) -> tuple[Check, ...]:
    """Return every check of a running container; `where` is the side to mend, `host` or `container`."""
    return (
        *_devices(container, host, inside),
        *_driver(container, host, inside),
        _shm(container, inside),
        _apparmor(host, inside),
        _glibc(inside, glibc_floor),
        _clock(inside),
        _dns(container, inside),
        *_disk(container, inside),
        _python(container, inside),
    )


def _devices(container: Container, host: HostFacts, inside: InsideReport) -> Iterator[Check]:
    if container.gpus is None:
        yield _check("devices", "skip", "host", "no [gpu] declared", "no [gpu] declared")
        return
    chosen = selection(container, host)
    yield _check(
        "devices.host",
        "fail" if chosen.problems else "pass",
        "host",
        "every wanted node, with the major in /proc/devices",
        "; ".join(chosen.problems) or f"{len(chosen.nodes)} nodes",
        chosen.problems[0].rpartition(": ")[2] if chosen.problems else "",
    )
    seen = {node.name: node for node in inside.nodes}
    start = f"envlock container stop {container.name} && envlock container start {container.name}"
    for node in chosen.nodes:
        there = seen.get(node.name)
        if there is None:
            yield _check(f"device.{node.name}", "fail", "host", f"/dev/{node.name} inside", "missing", start)
        elif (there.major, there.minor) != (node.major, node.minor):
            expected, found = f"{node.major}:{node.minor}", f"{there.major}:{there.minor}"
            yield _check(f"device.{node.name}", "fail", "host", expected, f"{found}, from before a reboot", start)
        else:
            yield _openable(container, node, inside.opened.get(node.name, "not tried"))
    for driver in sorted(set(CONTROL.values()) & inside.majors.keys()):
        if inside.majors[driver] != host.majors.get(driver):
            expected = str(host.majors.get(driver))
            yield _check(f"major.{driver}", "fail", "host", expected, str(inside.majors[driver]), start)


def _openable(container: Container, node: Node, said: str) -> Check:
    """Return what opening a node inside came to, and whose fault a refusal is."""
    name = f"device.{node.name}"
    if not said:
        return _check(name, "pass", "container", "opens", "opens")
    if "not permitted" in said.lower():
        found = f"{said}: the container's device cgroup forbids {node.major}:{node.minor}"
        remedy = (
            f"envlock container plan {container.name}, then stop and start it (after `systemctl daemon-reload` on "
            "the host running containers lose their GPUs, too)"
        )
        return _check(name, "fail", "host", "opens", found, remedy)
    if "denied" in said.lower():
        remedy = f"mode {node.mode:04o} on the host; `chmod 666 {node.path}` there, or [gpu] mode with Proxmox"
        return _check(name, "fail", "host", "opens", said, remedy)
    return _check(
        name, "fail", "host", "opens", said, "the driver does not answer: `nvidia-smi` and `dmesg` on the host"
    )


def _driver(container: Container, host: HostFacts, inside: InsideReport) -> Iterator[Check]:
    if container.gpus is None:
        return
    if host.driver is None:
        yield _check("driver", "fail", "host", "a loaded NVIDIA kernel module", "none", "`modprobe nvidia` on the host")
        return
    how = {
        "bind": f"envlock container create {container.name}: binds the host's libraries and runs ldconfig",
        "cdi": f"envlock container create {container.name}: binds what nvidia-ctk lists and runs ldconfig",
        "packages": f"envlock container create {container.name}: installs {host.driver}",
        "hook": "nvidia-container-cli on the host: `nvidia-container-cli info` tells what it would bring",
        "none": f"install exactly {host.driver} inside, without kernel modules",
    }[container.gpus.driver]
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        found = inside.libraries.get(soname, "")
        if not found:
            yield _check(f"driver.{soname}", "fail", "container", host.driver, "the loader finds none", how)
        elif found.endswith(f".so.{host.driver}"):
            yield _check(f"driver.{soname}", "pass", "container", host.driver, found)
        else:
            other = f"{found}, but the host's kernel module is {host.driver}: NVML would say version mismatch"
            yield _check(f"driver.{soname}", "fail", "container", host.driver, other, how)


def _shm(container: Container, inside: InsideReport) -> Check:
    needed = _GIB if container.gpus is not None else 64 << 20
    expected = f"at least {needed >> 20} MiB"
    remedy = f'[limits] shm = "16 GiB" in container/{container.name}.toml, then create, stop, start'
    if inside.shm is None:
        return _check("shm", "fail", "host", expected, "no /dev/shm", remedy)
    status: Status = "pass" if inside.shm >= needed else "warn"
    return _check("shm", status, "host", expected, f"{inside.shm >> 20} MiB", remedy)


def _apparmor(host: HostFacts, inside: InsideReport) -> Check:
    if not host.apparmor:
        return _check("apparmor", "skip", "host", "AppArmor", "the host's kernel has it off")
    confined = bool(inside.apparmor) and not inside.apparmor.startswith("unconfined")
    found = inside.apparmor or "unconfined"
    remedy = "lxc.apparmor.profile = generated; without one a container's root is the host's"
    return _check("apparmor", "pass" if confined else "warn", "host", "a profile", found, remedy)


def _glibc(inside: InsideReport, floor: str | None) -> Check:
    if floor is None or not inside.glibc:
        return _check("glibc", "skip", "container", "no lock names a floor", inside.glibc or "unknown")
    enough = _numbers(inside.glibc) >= _numbers(floor)
    remedy = "declare a newer release of the distribution, or lock the profile for an older glibc"
    return _check("glibc", "pass" if enough else "fail", "container", f"{floor} or newer", inside.glibc, remedy)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _clock(inside: InsideReport) -> Check:
    good = abs(inside.clock_off) <= _CLOCK_SECONDS
    found = f"{inside.clock_off:+.1f} s"
    remedy = "NTP on the host (a container has its host's clock): TLS and tokens fail before anything else"
    return _check("clock", "pass" if good else "warn", "host", f"within {_CLOCK_SECONDS:g} s of here", found, remedy)


def _dns(container: Container, inside: InsideReport) -> Check:
    if not inside.unresolved:
        return _check("dns", "pass", "container", "index hosts resolve", "they do")
    remedy = (
        "/etc/resolv.conf inside, or the network of the declaration; without one: sync --offline from a shared cache"
    )
    found = f"cannot resolve {', '.join(inside.unresolved)}"
    side = "container" if container.network != "none" else "host"
    return _check("dns", "warn", side, "index hosts resolve", found, remedy)


def _disk(container: Container, inside: InsideReport) -> Iterator[Check]:
    for name, folder in (("store", container.paths.store), ("uv-cache", container.paths.uv_cache)):
        free = inside.free.get(folder)
        if folder in inside.unwritable:
            remedy = "the folder's owner on the host must be the container's root (100000 when unprivileged)"
            yield _check(f"disk.{name}", "fail", "host", f"{folder} can be written", "it cannot", remedy)
        elif free is None:
            yield _check(f"disk.{name}", "skip", "container", folder, "not there yet; sync makes it")
        else:
            status: Status = "pass" if free >= 20 * _GIB else "warn" if free >= 2 * _GIB else "fail"
            remedy = "`envlock gc` and `uv cache prune` make room; a CUDA stack takes about 8 GB"
            yield _check(f"disk.{name}", status, "host", "20 GiB free", f"{free / _GIB:.0f} GiB free", remedy)


def _python(container: Container, inside: InsideReport) -> Check:
    good = bool(inside.python) and _numbers(inside.python) >= (3, 11)
    remedy = f'packages = ["python3"] and a release that has 3.11, in container/{container.name}.toml'
    status: Status = "pass" if good else "fail"
    return _check("python", status, "container", "3.11 or newer", inside.python or "no python3", remedy)
