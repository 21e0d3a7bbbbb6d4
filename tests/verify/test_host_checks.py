"""Judgements about a machine, on facts as values: no GPU is needed to know what they mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envlock.verify import host
from envlock.verify.check import Check
from envlock.verify.host_checks import host_checks, older
from envlock.verify.machine import Device, Gpus, Machine, Node, Unavailable
from envlock.verify.visible import visible

GIB = 2**30
DEVICE = Device(
    index=0,
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    name="NVIDIA RTX PRO 6000 Blackwell",
    capability="12.0",
    memory_total=96 * GIB,
    memory_used=GIB // 2,
    link=(5, 16),
    link_max=(5, 16),
)
GPUS = Gpus(driver="580.95.05", cuda="13.0", devices=(DEVICE, replace(DEVICE, index=1, uuid="GPU-11111111-1")))
MACHINE = Machine(
    kernel_driver="580.95.05",
    open_modules=True,
    user_libraries=("580.95.05",),
    nodes=(
        Node(path="/dev/nvidiactl", major=195, openable=True),
        Node(path="/dev/nvidia-uvm", major=510, openable=True),
    ),
    majors={"nvidia": 195, "nvidia-uvm": 510},
    shm_total=GIB,
    shm_free=GIB,
    memlock=None,
    iommu="",
)
DECLARED = {"compute-capability": "12.0", "count": 2, "min-free-memory": 90 * GIB, "exclusive": True}


def judge(machine: Machine = MACHINE, gpus: Gpus | Unavailable = GPUS, **declared: Any) -> dict[str, Check]:
    found = host_checks({**DECLARED, **declared}, "580.65.06", machine, gpus)
    return {check.id: check for check in found}


def failed(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status == "fail"}


def test_a_machine_as_it_should_be_passes() -> None:
    checks = judge()
    assert failed(checks) == set()
    assert not [check for check in checks.values() if check.status == "warn"]


def test_no_driver_is_told_with_the_way_out() -> None:
    checks = judge(replace(MACHINE, kernel_driver=None), Unavailable(kind="no-driver", reason="Driver Not Loaded"))
    assert failed(checks) == {"driver.present"}
    assert "--no-gpu" in checks["driver.present"].remedy


def test_driver_versions_compare_by_number() -> None:
    assert older("580.9", "580.65.06")
    assert not older("580.95.05", "580.65.06")
    assert older("575.57.08", "580.65.06")
    assert not older("580.65.06", "580.65.6")


def test_a_driver_below_the_floor_fails() -> None:
    assert "driver.floor" in failed(judge(replace(MACHINE, kernel_driver="575.57.08", user_libraries=("575.57.08",))))


def test_a_user_space_of_another_driver_fails() -> None:
    checks = judge(replace(MACHINE, user_libraries=("570.86.10",)), Unavailable(kind="mismatch", reason="mismatch"))
    assert "libcuda.so.570.86.10" in checks["driver.match"].found


def test_a_stale_uvm_major_and_a_closed_node_are_told_apart() -> None:
    stale = replace(MACHINE, nodes=(Node(path="/dev/nvidia-uvm", major=235, openable=True),))
    assert "major 235, the kernel says 510" in judge(stale)["devices.nodes"].found
    closed = replace(MACHINE, nodes=(Node(path="/dev/nvidia-uvm", major=510, error="Operation not permitted"),))
    assert "cgroup" in judge(closed)["devices.nodes"].remedy


def test_too_few_wrong_full_and_busy_gpus() -> None:
    one = replace(GPUS, devices=(DEVICE,))
    assert failed(judge(gpus=one)) == {"gpu.count"}
    hopper = replace(
        GPUS, devices=tuple(replace(device, capability="9.0", name="NVIDIA H200") for device in GPUS.devices)
    )
    assert failed(judge(gpus=hopper)) == {"gpu.capability"}
    full = replace(GPUS, devices=tuple(replace(device, memory_used=50 * GIB) for device in GPUS.devices))
    assert failed(judge(gpus=full)) == {"gpu.free-memory", "gpu.exclusive"}
    assert failed(judge(gpus=full, exclusive=False)) == {"gpu.free-memory"}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, ["GPU-0", "GPU-1"]),
        ("0", ["GPU-0"]),
        (" 1 , 00 ", ["GPU-1", "GPU-0"]),
        ("GPU-1111", ["GPU-1"]),
        ("MIG-a", ["MIG-a"]),
        ("", "empty"),
        ("7", "no GPU '7'"),
        (" ", "empty"),
        ("0,0", "twice"),
        ("0,", "no GPU ''"),
        ("-1", "no GPU '-1'"),
        ("0x1", "no GPU '0x1'"),
        ("\u00b2", "no GPU"),
        ("9" * 5000, "no GPU"),
        ("NoDevFiles", "no GPU 'NoDevFiles'"),
        ("GPU-9", "no GPU 'GPU-9'"),
        ("GPU-", "begins 2 UUIDs"),
        ("GPU-1111,0", "mixed"),
        ("MIG-b", "no GPU 'MIG-b'"),
    ],
)
def test_cuda_visible_devices_as_cuda_reads_it(setting: str | None, expected: list[str] | str) -> None:
    slice_ = replace(DEVICE, uuid="MIG-aaaaaaaa", memory_total=24 * GIB)
    devices = (DEVICE, replace(GPUS.devices[1], slices=(slice_,)))
    found = visible(devices, {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting})
    if isinstance(expected, list):
        assert [device.uuid[:5] for device in found.devices] == expected
        assert not found.wrong and not found.doubt
    else:
        assert not found.devices
        assert expected in found.wrong


def test_numbers_of_different_cards_mean_nothing_without_an_order() -> None:
    """CUDA puts the fastest first: number 0 may be the display card here and the big one there."""
    mixed = (replace(DEVICE, name="NVIDIA T400", capability="7.5"), GPUS.devices[1])
    assert "fastest first" in visible(mixed, {"CUDA_VISIBLE_DEVICES": "1"}).wrong
    assert "fastest first" in visible(mixed, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}).wrong
    ordered = visible(mixed, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert [device.name for device in ordered.devices] == [DEVICE.name]
    assert [device.name for device in visible(mixed, {"CUDA_VISIBLE_DEVICES": "GPU-1"}).devices] == [DEVICE.name]


def test_a_card_in_slices_is_no_set_of_gpus_that_can_be_told() -> None:
    sliced = (replace(DEVICE, mig=True), GPUS.devices[1])
    for variables in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": DEVICE.uuid}):
        assert "MIG" in visible(sliced, variables).doubt
    assert not visible(sliced, {"CUDA_VISIBLE_DEVICES": "1"}).doubt
    checks = judge(gpus=replace(GPUS, devices=sliced))
    assert checks["gpu.visible"].status == "warn"


def test_slow_and_sick_gpus_warn() -> None:
    sick = replace(DEVICE, throttle=("hardware power brake",), remap_pending=True, link=(5, 8), mig=True)
    checks = judge(gpus=replace(GPUS, devices=(sick, GPUS.devices[1])))
    assert failed(checks) == set()
    warned = {name for name, check in checks.items() if check.status == "warn"}
    assert warned == {"gpu.throttle", "gpu.health", "gpu.link", "gpu.mig", "gpu.visible"}


def test_too_little_shared_memory_fails() -> None:
    assert judge(replace(MACHINE, shm_total=64 * 2**20, shm_free=1))["host.shm"].status == "fail"


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({"lib": ["libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.580.95.05"]}, ""),
        ({"lib": []}, ""),
        ({}, ""),
        ({"lib": ["libfoo.so.1", "libcudart.txt"]}, ""),
        ({"lib": ["libcudart.so.12"]}, "libcudart.so.12"),
        ({"lib": ["libcuda.so.1", "libnccl.so.2"]}, "libnccl.so.2"),
        ({"lib": ["libtorch_cuda.so"]}, "libtorch_cuda.so"),
        ({"lib": ["libstdc++.so.6"]}, "libstdc++.so.6"),
        ({"lib/glibc-hwcaps/x86-64-v3": ["libcublasLt.so.12"]}, "libcublasLt.so.12"),
        ({"lib": ["libcuda.so"]}, "libcuda.so, not the driver 580.95.05's"),  # a stub, to link against
        ({"lib": ["libcuda.so.575.57.08"]}, "libcuda.so.575.57.08, not the driver 580.95.05's"),  # cuda-compat
        ({"lib": [f"libcu{name}.so.1" for name in ("blas", "dnn", "fft", "pti")]}, "libcublas.so.1, libcudnn.so.1, libcufft.so.1 and 1 more"),
    ],
)  # fmt: skip
def test_a_loader_path_is_judged_by_what_it_holds(tmp_path: Path, held: dict[str, list[str]], told: str) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    for folder, names in held.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            if name == "libcuda.so.1":
                (tmp_path / folder / "libcuda.so.580.95.05").write_text("")
                (tmp_path / folder / name).symlink_to("libcuda.so.580.95.05")
            else:
                (tmp_path / folder / name).write_text("")
    seen = host.observe({"LD_LIBRARY_PATH": "/lib"}, root=tmp_path)
    check = judge(replace(MACHINE, environ=seen.environ, loader_path=seen.loader_path))["environ.leaks"]
    assert check.status == ("warn" if told else "pass")
    assert f"/lib ({told})" in check.found or not told


@pytest.mark.parametrize("setting", ["/nonesuch:", ":/nonesuch", "lib", "/nonesuch::/other"])
def test_a_loader_path_that_means_the_current_folder_is_a_leak(setting: str) -> None:
    seen = host.observe({"LD_LIBRARY_PATH": setting})
    assert judge(replace(MACHINE, loader_path=seen.loader_path))["environ.leaks"].status == "warn"


def test_what_else_leaks() -> None:
    for name in ("LD_PRELOAD", "CUDA_HOME", "CUDA_PATH"):
        assert judge(replace(MACHINE, environ={name: "/x"}))["environ.leaks"].status == "warn"


def test_facts_are_read_below_a_root(tmp_path: Path) -> None:
    """A recorded tree: what an RTX PRO host shows, with one node missing."""
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information").write_text("Model: x\nDevice Minor: \t 0\n")
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
    )
    (tmp_path / "proc/devices").write_text(
        "Character devices:\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
    )
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05").write_text("")
    found = host.observe({"LD_PRELOAD": "x", "SECRET": "y"}, root=tmp_path)
    assert found.kernel_driver == "580.95.05"
    assert found.open_modules is True
    assert found.user_libraries == ("580.95.05",)
    assert found.majors["nvidia-uvm"] == 510
    assert [node.path for node in found.nodes] == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]
    assert all(node.major is None for node in found.nodes)
    assert found.environ == {"LD_PRELOAD": "x"}


def recorded() -> tuple[Machine, Gpus]:
    """What a real H200 machine told (tests/gpu/prove.sh), its UUID and boot id replaced."""
    data = json.loads(Path(__file__).with_name("h200.json").read_text())
    machine = {**data["machine"], "user_libraries": tuple(data["machine"]["user_libraries"])}
    machine["nodes"] = tuple(Node(**node) for node in machine["nodes"])
    devices = tuple(Device(**{**one, "throttle": tuple(one["throttle"])}) for one in data["gpus"]["devices"])
    return Machine(**machine), Gpus(**{**data["gpus"], "devices": devices})


def test_a_real_machine_passes_for_what_it_is_and_fails_for_what_it_is_not() -> None:
    machine, gpus = recorded()
    declared = {"compute-capability": "9.0", "count": 1, "min-free-memory": 100 * GIB, "exclusive": True}
    as_is = {check.id: check for check in host_checks(declared, "580.65.06", machine, gpus)}
    assert failed(as_is) == set()
    assert as_is["environ.leaks"].status == "warn"
    for change, expected in (
        ({"compute-capability": "12.0"}, "gpu.capability"),
        ({"count": 2}, "gpu.count"),
        ({"min-free-memory": 141 * GIB}, "gpu.free-memory"),
        ({"min-driver": "590.44.01"}, "driver.floor"),
    ):
        found = host_checks({**declared, **change}, "580.65.06", machine, gpus)
        assert {check.id for check in found if check.status == "fail"} == {expected}
