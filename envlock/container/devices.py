"""NVIDIA's device nodes: which there are, which a container gets, and what is wrong with them. Pure.

Sources: /proc/devices (majors; those of nvidia-uvm and nvidia-caps are dynamic, another after each boot or driver
update), /dev, /proc/driver/nvidia/gpus/*/information (index, UUID and minor of each GPU).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Node name below /dev -> the driver's name in /proc/devices. `nvidia-frontend` is what older drivers call 195.
CONTROL: Mapping[str, str] = {
    "nvidiactl": "nvidia",
    "nvidia-uvm": "nvidia-uvm",
    "nvidia-uvm-tools": "nvidia-uvm",
    "nvidia-modeset": "nvidia",
}
REQUIRED = ("nvidiactl", "nvidia-uvm")
"""nvidia-smi is content with the first; CUDA needs both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A character device on the host."""

    path: str
    major: int
    minor: int
    mode: int = 0o666

    @property
    def name(self) -> str:
        """Return the path below /dev, also when the node was found elsewhere (`nvidia-caps/nvidia-cap1`)."""
        head, _, last = self.path.rpartition("/")
        return f"nvidia-caps/{last}" if head.endswith("/nvidia-caps") else last


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU as the kernel module lists it."""

    bus: str
    uuid: str
    minor: int


def majors(proc_devices: str) -> dict[str, int]:
    """Return driver name -> major of the character devices in /proc/devices."""
    characters = proc_devices.partition("Block devices:")[0]
    found = {name: int(major) for major, name in re.findall(r"^\s*([0-9]+)\s+(\S+)\s*$", characters, re.MULTILINE)}
    if "nvidia" not in found and "nvidia-frontend" in found:
        found["nvidia"] = found["nvidia-frontend"]
    return found


def nodes(listing: str) -> tuple[Node, ...]:
    """Return the nodes in lines of `stat -c '%n %t %T %a'` (major and minor in hexadecimal, mode in octal)."""
    found = []
    for line in listing.splitlines():
        words = line.rsplit(" ", 3)
        if len(words) == 4:
            path, major, minor, mode = words
            found.append(Node(path=path, major=int(major, 16), minor=int(minor, 16), mode=int(mode, 8)))
    return tuple(found)


def gpus(information: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the concatenated /proc/driver/nvidia/gpus/*/information, in NVML's order (by bus)."""
    buses = re.findall(r"Bus Location:\s*(\S+)", information)
    uuids = re.findall(r"GPU UUID:\s*(\S+)", information)
    minors = re.findall(r"Device Minor:\s*([0-9]+)", information)
    found = [Gpu(bus=bus, uuid=uuid, minor=int(m)) for bus, uuid, m in zip(buses, uuids, minors, strict=False)]
    return tuple(sorted(found, key=lambda gpu: gpu.bus))


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The nodes a container gets, and what is missing on the host."""

    nodes: tuple[Node, ...]
    problems: tuple[str, ...]


def select(
    wanted: str | Sequence[str], present: Sequence[Node], known: Sequence[Gpu], numbers: Mapping[str, int]
) -> Selection:
    """Return the nodes for the wanted GPUs (`all`, or indexes and UUIDs) with the control nodes they need."""
    problems = []
    by_name = {node.name: node for node in present}
    cards = {int(name[6:]): node for name, node in by_name.items() if re.fullmatch(r"nvidia[0-9]+", name)}
    if "nvidia" not in numbers:
        problems.append("the kernel module nvidia is not loaded: `modprobe nvidia` on the host")
    elif "nvidia-uvm" not in numbers:
        problems.append("the kernel module nvidia_uvm is not loaded: `nvidia-modprobe -c0 -u` on the host")
    minors = sorted(cards)
    if wanted != "all":
        minors = []
        for word in wanted:
            minor = _minor(word, known)
            if minor is None or minor not in cards:
                problems.append(f"no GPU {word} on the host (it has {_there(cards, known)})")
            else:
                minors.append(minor)
    elif not cards:
        problems.append("no /dev/nvidia0 on the host: `nvidia-smi -L` there makes the nodes when the driver works")
    chosen = [cards[minor] for minor in minors]
    for name in CONTROL:
        if name in by_name:
            chosen.append(by_name[name])
        elif name in REQUIRED:
            problems.append(f"no /dev/{name} on the host: `nvidia-modprobe -c0 -u` there makes it")
    chosen += [node for name, node in sorted(by_name.items()) if name.startswith("nvidia-caps/")]
    for node in chosen:
        driver = "nvidia-caps" if node.name.startswith("nvidia-caps/") else CONTROL.get(node.name, "nvidia")
        now = numbers.get(driver)
        if now is not None and now != node.major:
            problems.append(
                f"{node.path} has major {node.major}, but {driver} is {now} in /proc/devices: "
                f"a node from before a reboot; `rm {node.path}` and `nvidia-modprobe -c0 -u` on the host"
            )
    return Selection(nodes=tuple(chosen), problems=tuple(problems))


def _minor(word: str, known: Sequence[Gpu]) -> int | None:
    if word.startswith("GPU-"):
        return next((gpu.minor for gpu in known if gpu.uuid.lower() == word.lower()), None)
    index = int(word)
    if known:  # an index is NVML's, by bus; the minor may be another
        return known[index].minor if index < len(known) else None
    return index


def _there(cards: Mapping[int, Node], known: Sequence[Gpu]) -> str:
    if known:
        return ", ".join(f"{index}: {gpu.uuid}" for index, gpu in enumerate(known))
    return ", ".join(str(minor) for minor in sorted(cards)) or "none"


# What nvidia's own container tools take for the capabilities compute and utility.
LIBRARIES = frozenset(
    {
        "libcuda",
        "libcudadebugger",
        "libnvidia-allocator",
        "libnvidia-cfg",
        "libnvidia-compiler",
        "libnvidia-fatbinaryloader",
        "libnvidia-gpucomp",
        "libnvidia-ml",
        "libnvidia-nvvm",
        "libnvidia-nvvm70",
        "libnvidia-opencl",
        "libnvidia-pkcs11",
        "libnvidia-pkcs11-openssl3",
        "libnvidia-ptxjitcompiler",
        "libnvidia-tileiras",
    }
)
PROGRAMS = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


def driver_version(proc_version: str) -> str | None:
    """Return the kernel module's version in /proc/driver/nvidia/version (open or proprietary module)."""
    match = re.search(r"NVRM version:.*?\s([0-9]{3,}\.[0-9]+(?:\.[0-9]+)?)\s", proc_version + " ")
    return match[1] if match else None


def driver_libraries(paths: Sequence[str], version: str) -> tuple[str, ...]:
    """Return those of `paths` that are the driver's compute and utility libraries of exactly that version."""
    ending = f".so.{version}"
    return tuple(
        sorted(path for path in paths if path.endswith(ending) and path.rpartition("/")[2][: -len(ending)] in LIBRARIES)
    )


def cdi_files(specification: str, version: str) -> tuple[str, ...]:
    """Return the compute and utility files that a CDI specification (JSON) mounts, libraries of that version alone.

    Empty when the text is no specification. The format: CDI's `containerEdits.mounts[].hostPath`.
    """
    try:
        data = json.loads(specification)
        mounts = [mount["hostPath"] for mount in data["containerEdits"].get("mounts", ())]
    except (ValueError, KeyError, TypeError):
        return ()
    paths = [path for path in mounts if isinstance(path, str)]
    programs = (path for path in paths if path.rpartition("/")[2] in PROGRAMS)
    return (*driver_libraries(paths, version), *programs)
