from __future__ import annotations

import json

import pytest

from envlock.container.devices import (
    Gpu,
    Node,
    cdi_files,
    driver_libraries,
    driver_version,
    gpus,
    majors,
    nodes,
    select,
)

# /proc/devices as hosts with a loaded driver show it; the dynamic majors are those seen in the field.
PROC_DEVICES = """Character devices:
  1 mem
195 nvidia
195 nvidia-modeset
195 nvidiactl
{uvm} nvidia-uvm
{caps} nvidia-caps

Block devices:
  7 loop
511 nvidia-uvm
"""
INFORMATION = """Model: 		 NVIDIA RTX PRO 6000 Blackwell
IRQ:   		 16
GPU UUID: 	 GPU-bbbbbbbb-0000-0000-0000-000000000002
Bus Location: 	 0000:41:00.0
Device Minor: 	 0
Model: 		 NVIDIA RTX PRO 6000 Blackwell
GPU UUID: 	 GPU-aaaaaaaa-0000-0000-0000-000000000001
Bus Location: 	 0000:01:00.0
Device Minor: 	 1
"""


def table(uvm: int = 511, *, without: str = "") -> tuple[Node, ...]:
    lines = [
        "/dev/nvidia0 c3 0 666",
        "/dev/nvidia1 c3 1 666",
        "/dev/nvidiactl c3 ff 666",
        f"/dev/nvidia-uvm {uvm:x} 0 666",
        f"/dev/nvidia-uvm-tools {uvm:x} 1 666",
        "/dev/nvidia-modeset c3 fe 666",
        "/dev/nvidia-caps/nvidia-cap1 ea 1 400",
        "/dev/nvidia-caps/nvidia-cap2 ea 2 444",
    ]
    return nodes("\n".join(line for line in lines if not line.startswith(f"{without} ")))


NUMBERS = majors(PROC_DEVICES.format(uvm=511, caps=234))


@pytest.mark.parametrize("uvm", [234, 235, 243, 506, 509, 510, 511])
def test_dynamic_majors_are_read_of_character_devices_alone(uvm: int) -> None:
    found = majors(PROC_DEVICES.format(uvm=uvm, caps=236))
    assert (found["nvidia"], found["nvidia-uvm"], found["nvidia-caps"]) == (195, uvm, 236)


def test_older_drivers_call_it_frontend() -> None:
    assert majors("Character devices:\n195 nvidia-frontend\n")["nvidia"] == 195


def test_all_gpus_come_with_their_control_nodes() -> None:
    chosen = select("all", table(), gpus(INFORMATION), NUMBERS)
    assert chosen.problems == ()
    assert [node.name for node in chosen.nodes] == [
        "nvidia0",
        "nvidia1",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia-modeset",
        "nvidia-caps/nvidia-cap1",
        "nvidia-caps/nvidia-cap2",
    ]


def test_an_index_is_nvmls_by_bus_and_a_uuid_is_exact() -> None:
    known = gpus(INFORMATION)
    assert [gpu.minor for gpu in known] == [1, 0]
    assert select(("0",), table(), known, NUMBERS).nodes[0].name == "nvidia1"
    by_uuid = select(("GPU-BBBBBBBB-0000-0000-0000-000000000002",), table(), known, NUMBERS)
    assert by_uuid.nodes[0].name == "nvidia0"
    assert by_uuid.problems == ()


def test_a_gpu_that_is_not_there_is_told_with_those_that_are() -> None:
    chosen = select(("7",), table(), gpus(INFORMATION), NUMBERS)
    assert "no GPU 7 on the host (it has 0: GPU-aaaaaaaa" in chosen.problems[0]


@pytest.mark.parametrize(
    ("present", "numbers", "says"),
    [
        (table(without="/dev/nvidia-uvm"), NUMBERS, "no /dev/nvidia-uvm on the host"),
        (table(without="/dev/nvidiactl"), NUMBERS, "no /dev/nvidiactl on the host"),
        ((), {}, "the kernel module nvidia is not loaded"),
        (table(), {"nvidia": 195}, "nvidia_uvm is not loaded"),
        (table(uvm=510), NUMBERS, "/dev/nvidia-uvm has major 510, but nvidia-uvm is 511 in /proc/devices"),
    ],
)
def test_what_is_wrong_on_the_host_is_said_before_anything_is_made(
    present: tuple[Node, ...], numbers: dict[str, int], says: str
) -> None:
    assert any(says in problem for problem in select("all", present, (), numbers).problems)


def test_without_the_modules_list_an_index_is_a_minor() -> None:
    assert select(("1",), table(), (), NUMBERS).nodes[0].name == "nvidia1"
    assert gpus("") == ()
    assert Gpu(bus="0000:01:00.0", uuid="GPU-aaaaaaaa-0000-0000-0000-000000000001", minor=1) in gpus(INFORMATION)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@x)  Sun\n",
            "580.65.06",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.26  Thu Jan 1 2025\nGCC version:  gcc 12\n", "570.26"),
        ("", None),
    ],
)
def test_the_kernel_modules_version_is_read(text: str, version: str | None) -> None:
    assert driver_version(text) == version


def test_only_compute_and_utility_libraries_of_exactly_the_modules_version_are_bound() -> None:
    folder = "/usr/lib/x86_64-linux-gnu"
    paths = [f"{folder}/libcuda.so.580.65.06", f"{folder}/libcuda.so.570.26", f"{folder}/libnvidia-ml.so.580.65.06"]
    paths += [f"{folder}/libnvidia-glcore.so.580.65.06", f"{folder}/libcuda.so.1"]
    assert driver_libraries(paths, "580.65.06") == (paths[0], paths[2])


def test_a_cdi_specification_gives_the_same_kind_of_files_from_wherever_they_lie() -> None:
    root = "/opt/nvidia/driver"
    paths = [f"{root}/lib/libcuda.so.580.65.06", f"{root}/bin/nvidia-smi", f"{root}/lib/libnvidia-glcore.so.580.65.06"]
    mounts = [{"hostPath": path, "containerPath": path, "options": ["ro", "bind"]} for path in paths]
    text = json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": mounts}})
    assert cdi_files(text, "580.65.06") == (paths[0], paths[1])
    assert cdi_files("no specification", "580.65.06") == ()
