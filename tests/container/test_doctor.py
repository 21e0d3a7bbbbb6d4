from __future__ import annotations

from dataclasses import replace

import pytest

from envlock.container.devices import Node
from envlock.container.doctor import InsideReport, judge
from envlock.container.facts import HostFacts
from envlock.container.reader import read_container
from envlock.verify.check import Check
from tests.container.test_devices import NUMBERS, table

GPU_BOX = read_container("box", 'engine = "lxc"\n[gpu]\n', "declaration")
HOST = HostFacts(majors=NUMBERS, nodes=table(), driver="580.65.06", libraries=("x",), apparmor=True)
HEALTHY = InsideReport(
    majors=NUMBERS,
    nodes=table(),
    opened={node.name: "" for node in table()},
    libraries={
        "libcuda.so.1": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",
        "libnvidia-ml.so.1": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.65.06",
    },
    shm=16 << 30,
    apparmor="lxc-box_</var/lib/lxc> (enforce)",
    glibc="2.36",
    free={GPU_BOX.paths.store: 100 << 30, GPU_BOX.paths.uv_cache: 100 << 30},
    python="3.11.2",
)


def judged(inside: InsideReport, host: HostFacts = HOST) -> dict[str, Check]:
    checks = judge(GPU_BOX, host, inside, "2.35")
    return {check.id.removeprefix("container."): check for check in checks if check.status in ("warn", "fail")}


def test_a_healthy_container_passes() -> None:
    assert judged(HEALTHY) == {}


def opened(name: str, said: str) -> InsideReport:
    return replace(HEALTHY, opened={**HEALTHY.opened, name: said})


def moved(name: str, major: int) -> tuple[Node, ...]:
    return tuple(replace(node, major=major) if node.name == name else node for node in table())


@pytest.mark.parametrize(
    ("inside", "check", "side", "found", "remedy"),
    [
        (
            opened("nvidia-uvm", "Operation not permitted"),
            "device.nvidia-uvm",
            "host",
            "cgroup forbids 511:0",
            "stop and",
        ),
        (
            opened("nvidia0", "Permission denied"),
            "device.nvidia0",
            "host",
            "Permission denied",
            "chmod 666 /dev/nvidia0",
        ),
        (opened("nvidia0", "No such device or address"), "device.nvidia0", "host", "No such device", "nvidia-smi"),
        (
            replace(HEALTHY, nodes=tuple(node for node in table() if node.name != "nvidia-uvm")),
            "device.nvidia-uvm",
            "host",
            "missing",
            "envlock container start box",
        ),
        (replace(HEALTHY, nodes=moved("nvidia-uvm", 510)), "device.nvidia-uvm", "host", "510:0", "container start box"),
        (
            replace(HEALTHY, libraries={"libnvidia-ml.so.1": HEALTHY.libraries["libnvidia-ml.so.1"]}),
            "driver.libcuda.so.1",
            "container",
            "the loader finds none",
            "ldconfig",
        ),
        (
            replace(HEALTHY, libraries={**HEALTHY.libraries, "libcuda.so.1": "/usr/lib/libcuda.so.570.26"}),
            "driver.libcuda.so.1",
            "container",
            "the host's kernel module is 580.65.06",
            "container create box",
        ),
        (replace(HEALTHY, shm=64 << 20), "shm", "host", "64 MiB", "[limits] shm"),
        (replace(HEALTHY, shm=None), "shm", "host", "no /dev/shm", "[limits] shm"),
        (replace(HEALTHY, apparmor="unconfined"), "apparmor", "host", "unconfined", "generated"),
        (replace(HEALTHY, glibc="2.31"), "glibc", "container", "2.31", "newer release"),
        (replace(HEALTHY, clock_off=-3600.0), "clock", "host", "-3600.0 s", "NTP"),
        (replace(HEALTHY, unresolved=("index.example",)), "dns", "host", "index.example", "resolv.conf"),
        (replace(HEALTHY, unwritable=(GPU_BOX.paths.store,)), "disk.store", "host", "cannot", "owner"),
        (replace(HEALTHY, free={GPU_BOX.paths.store: 1 << 30}), "disk.store", "host", "1 GiB free", "gc"),
        (replace(HEALTHY, python="3.10.12"), "python", "container", "3.10.12", "3.11"),
    ],
)
def test_each_illness_is_found_on_the_side_that_has_it(
    inside: InsideReport, check: str, side: str, found: str, remedy: str
) -> None:
    ill = judged(inside)
    assert set(ill) == {check}
    assert ill[check].where == side
    assert found in ill[check].found
    assert remedy in ill[check].remedy


def test_a_host_without_its_module_is_told_before_the_container_is_blamed() -> None:
    ill = judged(HEALTHY, HostFacts())
    assert "the kernel module nvidia is not loaded" in ill["devices.host"].found
    assert ill["driver"].where == "host"
