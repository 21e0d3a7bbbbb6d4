"""Declaration x facts -> the exact configuration of the engine. Pure, and the same lines for the same input."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from envlock.container.declaration import Container, Mount
from envlock.container.devices import PROGRAMS, Node, Selection, select
from envlock.container.facts import HostFacts

LXC_FOLDER = "/var/lib/lxc"
LIBRARY_FOLDER = {"x86_64": "usr/lib/x86_64-linux-gnu", "aarch64": "usr/lib/aarch64-linux-gnu"}
INIT = "/sbin/envlock-init"
"""PID 1 of plain LXC containers: systemd where it is installed, else a shell that reaps and stops when told."""
INIT_TEXT = """#!/bin/sh
# Written by envlock: PID 1 of this container.
[ -x /lib/systemd/systemd ] && exec /lib/systemd/systemd
trap 'exit 0' TERM INT PWR
while :; do sleep 86400 & wait $!; done
"""
_HOOK = "/usr/share/lxc/hooks/nvidia"
_FIRST_ID, _IDS = 100000, 65536
_PERIOD = 100000  # of the CPU quota, in microseconds


def selection(container: Container, host: HostFacts) -> Selection:
    """Return the device nodes the container gets, and what is missing."""
    if container.gpus is None:
        return Selection(nodes=(), problems=())
    return select(container.gpus.devices, host.nodes, host.gpus, host.majors)


def digest(lines: Sequence[str]) -> str:
    """Return sixteen hex digits over a configuration."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def lxc_config(container: Container, host: HostFacts) -> tuple[str, ...]:
    """Return the whole /var/lib/lxc/NAME/config."""
    folder = f"{LXC_FOLDER}/{container.name}"
    lines = [
        f"# {container.name}: written by envlock, and written anew at each create and start",
        "lxc.include = /usr/share/lxc/config/common.conf",
    ]
    if not container.privileged:
        lines += [
            "lxc.include = /usr/share/lxc/config/userns.conf",
            f"lxc.idmap = u 0 {_FIRST_ID} {_IDS}",
            f"lxc.idmap = g 0 {_FIRST_ID} {_IDS}",
        ]
    lines += [
        f"lxc.rootfs.path = dir:{folder}/rootfs",
        f"lxc.uts.name = {container.name}",
        f"lxc.arch = {host.machine}",
        f"lxc.init.cmd = {INIT}",
    ]
    if container.network == "none":
        lines.append("lxc.net.0.type = none")
        if not container.privileged:  # sysfs belongs to a network: only its owner may mount it, so bind the host's
            lines += ["lxc.mount.auto =", "lxc.mount.auto = cgroup:mixed proc:mixed"]
            lines.append("lxc.mount.entry = /sys sys none rbind,ro 0 0")
    else:
        lines += ["lxc.net.0.type = veth", f"lxc.net.0.link = {container.network}", "lxc.net.0.flags = up"]
    if host.apparmor:
        lines.append("lxc.apparmor.profile = generated")
    if container.start_at_boot:
        lines.append("lxc.start.auto = 1")
    lines += _lxc_limits(container, host)
    lines += [_mount_entry(mount) for mount in container.mounts]
    lines += _lxc_gpus(container, host)
    lines += container.config
    return tuple(lines)


def _lxc_limits(container: Container, host: HostFacts) -> list[str]:
    limits, lines = container.limits, []
    if host.cgroup == 2:
        if limits.cores is not None:
            lines.append(f"lxc.cgroup2.cpu.max = {limits.cores * _PERIOD} {_PERIOD}")
        if limits.memory is not None:
            lines.append(f"lxc.cgroup2.memory.max = {limits.memory}")
    else:
        if limits.cores is not None:
            lines += [f"lxc.cgroup.cpu.cfs_period_us = {_PERIOD}"]
            lines += [f"lxc.cgroup.cpu.cfs_quota_us = {limits.cores * _PERIOD}"]
        if limits.memory is not None:
            lines.append(f"lxc.cgroup.memory.limit_in_bytes = {limits.memory}")
    if limits.memlock is not None:
        lines.append(f"lxc.prlimit.memlock = {limits.memlock}")
    # LXC makes no /dev/shm of its own, and without one not even multiprocessing can make a lock
    size = "" if limits.shm is None else f",size={limits.shm}"
    lines.append(f"lxc.mount.entry = tmpfs dev/shm tmpfs rw,nosuid,nodev,mode=1777,create=dir{size} 0 0")
    return lines


def _mount_entry(mount: Mount) -> str:
    options = "bind,create=dir" + (",ro" if mount.read_only else "")
    return f"lxc.mount.entry = {mount.source} {mount.target.lstrip('/')} none {options} 0 0"


def _lxc_gpus(container: Container, host: HostFacts) -> list[str]:
    """Return device rights and mounts. Nothing is `optional`: a node that is missing stops the start, and says so."""
    if container.gpus is None:
        return []
    if container.gpus.driver == "hook":
        capabilities = ",".join(container.gpus.capabilities)
        devices = container.gpus.devices if container.gpus.devices == "all" else ",".join(container.gpus.devices)
        hook = [
            f"lxc.environment = NVIDIA_VISIBLE_DEVICES={devices}",
            f"lxc.environment = NVIDIA_DRIVER_CAPABILITIES={capabilities}",
            f"lxc.hook.mount = {_HOOK}",
        ]
    else:
        hook = []
    group = "cgroup2" if host.cgroup == 2 else "cgroup"
    chosen = selection(container, host).nodes
    lines = [f"lxc.{group}.devices.allow = c {node.major}:{node.minor} rw" for node in chosen]
    if not hook:
        lines += [f"lxc.mount.entry = {node.path} dev/{node.name} none bind,create=file 0 0" for node in chosen]
        lines += [f"lxc.mount.entry = {entry}" for entry in _library_entries(container, host)]
    if chosen:
        lines.append(f"lxc.hook.pre-start = {LXC_FOLDER}/{container.name}/check-devices")
    return lines + hook


def _library_entries(container: Container, host: HostFacts) -> list[str]:
    """Return mount entries of the driver's user space, each file where the container's own loader looks."""
    if container.gpus is None:
        return []
    entries = []
    for path in {"bind": host.libraries, "cdi": host.cdi}.get(container.gpus.driver, ()):
        name = path.rpartition("/")[2]
        target = f"usr/bin/{name}" if name in PROGRAMS else f"{LIBRARY_FOLDER[host.machine]}/{name}"
        entries.append(f"{path} {target} none bind,ro,create=file 0 0")
    return entries


def device_check(nodes: Sequence[Node]) -> str:
    """Return the script LXC runs before each start, at boot too: majors that moved stop it with a word on the cure."""
    lines = ["#!/bin/sh", "# Written by envlock: the device numbers in the configuration must still be true."]
    for node in nodes:
        number = f"{node.major:x}:{node.minor:x}"
        lines.append(f'now=$(stat -c "%t:%T" {node.path} 2>/dev/null)')
        lines.append(
            f'[ "$now" = "{number}" ] || {{ echo "{node.path} is ${{now:-missing}}, the configuration says {number} '
            '(hex): envlock container start writes it anew" >&2; exit 1; }'
        )
    return "\n".join([*lines, "exit 0", ""])


# Proxmox: what `pct` has words for, and the rest as raw lines.


def pct_options(container: Container, host: HostFacts) -> tuple[tuple[str, str], ...]:
    """Return the options for `pct create` and `pct set`, name and value, that Proxmox has words for."""
    limits = container.limits
    options = [("hostname", container.name), ("tags", "envlock")]
    if limits.cores is not None:
        options.append(("cores", str(limits.cores)))
    if limits.memory is not None:
        options.append(("memory", str(limits.memory >> 20)))
    options.append(("onboot", str(int(container.start_at_boot))))
    if container.network != "none":
        options.append(("net0", container.network))
    for number, mount in enumerate(container.mounts):
        read_only = ",ro=1" if mount.read_only else ""
        options.append((f"mp{number}", f"{mount.source},mp={mount.target}{read_only}"))
    if container.gpus is not None:
        gid = "" if container.gpus.gid is None else f",gid={container.gpus.gid}"
        for number, node in enumerate(selection(container, host).nodes):
            options.append((f"dev{number}", f"{node.path}{gid},mode={container.gpus.mode}"))
    return tuple(options)


def pct_create(container: Container, host: HostFacts) -> tuple[str, ...]:
    """Return the argv that makes the container on its Proxmox host."""
    argv = ["pct", "create", container.guest, str(container.template)]
    argv += ["--unprivileged", str(int(not container.privileged)), "--ostype", container.distribution]
    if container.storage is not None:
        argv += ["--rootfs", f"{container.storage}:{container.limits.disk}"]
    for name, value in pct_options(container, host):
        argv += [f"--{name}", value]
    return tuple(argv)


def pct_raw(container: Container, host: HostFacts) -> tuple[str, ...]:
    """Return the lines of /etc/pve/lxc/ID.conf that `pct set` has no word for (Proxmox writes them with a colon)."""
    limits, lines = container.limits, []
    if limits.memlock is not None:
        lines.append(f"lxc.prlimit.memlock: {limits.memlock}")
    if limits.shm is not None:
        lines.append(f"lxc.mount.entry: tmpfs dev/shm tmpfs rw,nosuid,nodev,create=dir,size={limits.shm} 0 0")
    if container.network == "none":
        lines.append("lxc.net.0.type: none")
    lines += [f"lxc.mount.entry: {entry}" for entry in _library_entries(container, host)]
    lines += [line.replace(" = ", ": ", 1) for line in container.config]
    return tuple(lines)


def pct_config(container: Container, host: HostFacts) -> tuple[str, ...]:
    """Return the lines of /etc/pve/lxc/ID.conf that this declaration is answerable for."""
    options = [f"{name}: {value}" for name, value in pct_options(container, host)]
    return (*options, f"unprivileged: {int(not container.privileged)}", *pct_raw(container, host))
