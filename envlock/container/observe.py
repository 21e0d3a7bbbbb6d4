"""Read the facts of a host and of a running container through a transport. Effects; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envlock.container.config import LIBRARY_FOLDER
from envlock.container.declaration import PLACE_FILE, TOOL, Container
from envlock.container.devices import PROGRAMS, cdi_files, driver_libraries, driver_version, gpus, majors, nodes
from envlock.container.facts import HostFacts, InsideFacts
from envlock.container.transport import Transport
from envlock.errors import TransportError

_PART = "\x1e"
# One shell, one round trip. $1: /dev, $2: /proc, then programs, then --, then sources of mounts.
_HOST = r"""
dev=$1 proc=$2; shift 2
part() { printf '\036'; }
uname -m; part
[ -e /sys/fs/cgroup/cgroup.controllers ] && echo 2 || echo 1; part
cat /sys/module/apparmor/parameters/enabled 2>/dev/null; part
while [ "$1" != -- ]; do command -v "$1" >/dev/null || echo "$1"; shift; done; shift; part
cat "$proc/devices"; part
stat -c '%n %t %T %a' "$dev"/nvidia[0-9]* "$dev"/nvidiactl "$dev"/nvidia-uvm "$dev"/nvidia-uvm-tools \
  "$dev"/nvidia-modeset "$dev"/nvidia-caps/* 2>/dev/null; part
cat "$proc"/driver/nvidia/gpus/*/information 2>/dev/null; part
cat "$proc/driver/nvidia/version" 2>/dev/null; part
ls -d /usr/lib/*-linux-gnu/lib*.so.[0-9]* /usr/lib64/lib*.so.[0-9]* /usr/lib/lib*.so.[0-9]* 2>/dev/null \
  | grep -E '/lib(cuda|nvidia)'; part
for p in nvidia-smi nvidia-debugdump nvidia-cuda-mps-control nvidia-cuda-mps-server; do command -v $p; done; part
for s in "$@"; do [ -d "$s" ] || echo "$s"; done; part
command -v nvidia-container-cli >/dev/null && [ -x /usr/share/lxc/hooks/nvidia ] && echo yes; part
id -u; part
"""
# $1: place file, $2: tool, then packages.
_INSIDE = r"""
place=$1 tool=$2 library=$3; shift 3
part() { printf '\036'; }
for p in "$@"; do dpkg-query -W -f '${Status}' "${p%%=*}" 2>/dev/null | grep -q 'ok installed' || echo "$p"; done; part
python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; part
readlink "$tool"; part
cat "$place" 2>/dev/null; part
[ -e "/$library/libcuda.so.1" ] && echo yes; part
"""
REQUIRED_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "lxc": ("lxc-start", "lxc-attach", "debootstrap", "tar"),
    "proxmox": ("pct", "pveam"),
}


def host_facts(host: Transport, container: Container, *, dev: str = "/dev", proc: str = "/proc") -> HostFacts:
    """Return what the engine's machine has. Raises TransportError when it cannot be reached."""
    sources = [mount.source for mount in container.mounts if mount.source is not None]
    text = host.need(
        ("sh", "-c", _HOST, "sh", dev, proc, *REQUIRED_PROGRAMS[container.engine], "--", *sources),
        what="reading the host's facts",
        timeout=60,
    )
    parts = [part.strip("\n") for part in text.split(_PART)]
    driver = driver_version(parts[7])
    libraries = driver_libraries(parts[8].split("\n"), driver) if driver else ()
    programs = tuple(path for path in parts[9].split("\n") if path.rpartition("/")[2] in PROGRAMS)
    cdi: tuple[str, ...] = ()
    if driver and container.gpus is not None and container.gpus.driver == "cdi":
        cdi = cdi_files(host.run(("nvidia-ctk", "--quiet", "cdi", "generate", "--format=json")).stdout, driver)
    machine = parts[0] if parts[0] in LIBRARY_FOLDER else "x86_64"
    return HostFacts(
        machine=machine,
        cgroup=2 if parts[1] == "2" else 1,
        apparmor=parts[2].startswith("Y"),
        missing_programs=tuple(parts[3].split()),
        majors=majors(parts[4]),
        nodes=nodes(parts[5]),
        gpus=gpus(parts[6]),
        driver=driver,
        libraries=(*libraries, *programs) if libraries else (),
        cdi=cdi,
        absent_sources=tuple(line for line in parts[10].split("\n") if line),
        hook=parts[11] == "yes",
        root=parts[12] == "0",
    )


def inside_facts(inside: Transport, container: Container, host: HostFacts) -> InsideFacts:
    """Return what a running container has. Raises TransportError when it cannot be entered."""
    library = LIBRARY_FOLDER[host.machine]
    text = inside.need(
        ("sh", "-c", _INSIDE, "sh", PLACE_FILE, TOOL, library, *container.packages),
        what="reading the container's facts",
        timeout=60,
    )
    parts = [part.strip("\n") for part in text.split(_PART)]
    link = re.fullmatch(r"\.envlock\.([0-9a-f]{16})", parts[2])
    return InsideFacts(
        missing_packages=tuple(parts[0].split()),
        python=parts[1] or None,
        tool=link[1] if link else None,
        place=parts[3].strip() or None,
        driver_links=parts[4] == "yes",
    )


def reach(host: Transport, container: Container) -> tuple[HostFacts, TransportError | None]:
    """Return the host's facts, or empty ones with the error that stood in the way."""
    try:
        return host_facts(host, container), None
    except TransportError as error:
        return HostFacts(reached=False), error
