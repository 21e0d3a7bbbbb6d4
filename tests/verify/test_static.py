from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from envlock.declare.profile import Gpu, Kernels
from envlock.environment.seal import Seal
from envlock.lock.document import Coverage, DeviceCode, Lock
from envlock.verify import explain
from envlock.verify.check import Check
from tests.support import binaries as make
from tests.support import environments as made
from tests.support.environments import PROFILE, judged


class Stack(NamedTuple):
    prefix: Path
    site: Path
    lock: Lock
    seal: Seal

    def judged(self, *, deep: bool = False) -> dict[str, Check]:
        return judged(self.prefix, self.lock, self.seal, deep=deep)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    prefix = tmp_path / "0001-dddddddd"
    made.make_stack(prefix)
    lock = made.make_lock(prefix)
    return Stack(prefix, prefix / "lib" / f"python{made.MINOR}" / "site-packages", lock, made.make_seal(prefix, lock))


def failing(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status == "fail"}


def test_a_healthy_stack_holds_from_its_seal_deep_and_as_a_foreign_environment(stack: Stack) -> None:
    for checks in (
        stack.judged(),
        stack.judged(deep=True),
        judged(stack.prefix, stack.lock, None),
        judged(stack.prefix, None, None, None),
    ):
        assert not failing(checks), [check for check in checks.values() if check.status == "fail"]
    told = stack.judged()
    assert told["kernels.accepted"].found == "kern/hopper.abi3.so: launched with another backend"
    assert told["kernels.required"].status == "pass"


def test_the_same_checks_in_the_same_order_whatever_is_judged_and_each_is_explained(stack: Stack) -> None:
    sealed, foreign = list(stack.judged()), list(judged(stack.prefix, None, None, None))
    assert sealed == foreign
    assert set(sealed) <= set(explain.TEXTS)


def test_every_failure_says_where_and_what_to_do(stack: Stack) -> None:
    for damage in DAMAGE:
        DAMAGE[damage][0](stack)
    for check in stack.judged().values():
        if check.status in ("fail", "warn"):
            assert check.expected and check.found and check.where and check.remedy, check


def swap_torch(stack: Stack) -> None:
    made.install(stack.prefix, "torch", "2.11.0+cu128", made.torch_files("12.8"))
    shutil.rmtree(stack.site / "torch-2.11.0.dist-info")


def twin_nccl(stack: Stack) -> None:
    other = make.library(fatbin=made.fat((make.SASS, 120, ""), (make.SASS, 90, "")))
    made.install(stack.prefix, "nvidia-nccl-cu12", "2.28.9", {"nvidia/nccl/lib/libnccl.so.2": other})


def edit(stack: Stack) -> None:
    with (stack.site / "torch" / "__init__.py").open("a") as file:
        file.write("# one line more\n")


def delete(stack: Stack) -> None:
    (stack.site / "kern" / "common.abi3.so").unlink()


def stray(stack: Stack) -> None:
    (stack.site / "aaa.pth").write_text("import sys; sys.path.insert(0, '/elsewhere')\n")


def foreign_extension(stack: Stack) -> None:
    wrong = make.library(
        fatbin=made.fat((make.SASS, 120, "a")),
        needed=["libc10.so", "libcudart.so.13"],
        undefined=["_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", made.TORCH_EXPORTS[0]],
    )
    made.install(stack.prefix, "kern", "1.0", {"kern/common.abi3.so": wrong, "kern/hopper.abi3.so": made.HOPPER})


def leftover(stack: Stack) -> None:
    (stack.site / "~orch").mkdir()
    (stack.site / "~orch" / "x.py").write_text("")


def second_version(stack: Stack) -> None:
    made.install(stack.prefix, "torch", "2.10.0", {})


def other_runtime(stack: Stack) -> None:
    wrong = make.library(fatbin=made.fat((make.SASS, 120, "a")), needed=["libcudart.so.12"])
    made.install(stack.prefix, "kern", "1.0", {"kern/common.abi3.so": wrong, "kern/hopper.abi3.so": made.HOPPER})


def moved_script(stack: Stack) -> None:
    (stack.prefix / "bin" / "tool").write_text("#!/usr/bin/python3\n")


@pytest.mark.parametrize(
    "name",
    ["sitecustomize.py", "usercustomize.pyc", "sitecustomize.cpython-311-x86_64-linux-gnu.so", "sitecustomize.so"],
)
def test_what_python_imports_by_itself_is_told_in_whatever_form(stack: Stack, name: str) -> None:
    (stack.site / name).write_bytes(b"")
    check = judged(stack.prefix, stack.lock, None)["startup.modules"]
    assert (check.status, check.found) == ("warn", name)


def test_a_script_that_leads_out_by_dots_is_told(stack: Stack) -> None:
    (stack.prefix / "bin" / "tool").write_text(f"#!{stack.prefix}/bin/../../elsewhere/bin/python\n")
    check = judged(stack.prefix, stack.lock, None)["startup.scripts"]
    assert check.status == "fail"
    assert "elsewhere" in check.found


@pytest.mark.parametrize(
    ("rpath", "needed", "told"),
    [
        ("/usr/local/cuda/lib64", (), "/usr/local/cuda/lib64"),
        ("$ORIGIN/../lib:/opt/nvidia/cuda-12.8/lib64", (), "/opt/nvidia/cuda-12.8/lib64"),
        ("", ("/usr/lib/x86_64-linux-gnu/libcudart.so.13",), "/usr/lib/x86_64-linux-gnu/libcudart.so.13"),
        ("/build/openmpi/lib:$ORIGIN/../torch/lib", ("libcudart.so.13",), ""),
    ],
)
def test_a_library_that_is_sent_to_the_systems_cuda_is_told(
    stack: Stack, rpath: str, needed: tuple[str, ...], told: str
) -> None:
    (stack.site / "kern" / "extra.abi3.so").write_bytes(make.library(rpath=rpath, needed=needed))
    check = judged(stack.prefix, stack.lock, None)["abi.search-path"]
    assert check.status == ("warn" if told else "pass")
    assert told in check.found


def cut_library(stack: Stack) -> None:
    path = stack.site / "torch" / "lib" / "libtorch_cuda.so"
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE: dict[str, tuple[Callable[[Stack], None], str, str]] = {
    "torch swapped for another CUDA build": (swap_torch, "torch.cuda-build", "torch 2.11.0+cu128, CUDA 12.8"),
    "nccl-cu12 beside nccl-cu13": (twin_nccl, "packages.cuda-twins", "nvidia-nccl-cu12 and nvidia-nccl-cu13"),
    "one file with two owners": (twin_nccl, "files.one-owner", "libnccl.so.2 (nvidia-nccl-cu12 and nvidia-nccl-cu13)"),
    "an edited file": (edit, "files.drift", "torch/__init__.py (torch)"),
    "a deleted file": (delete, "files.drift", "kern/common.abi3.so (kern)"),
    "a stray .pth": (stray, "startup.path-files", "aaa.pth: import sys"),
    "an extension for another torch": (foreign_extension, "abi.torch", "kern/common.abi3.so (kern): 1 torch symbols"),
    "what pip left": (leftover, "startup.leftovers", "~orch"),
    "two versions": (second_version, "packages.one-version", "torch-2.10.0.dist-info and torch-2.11.0.dist-info"),
    "another CUDA runtime": (other_runtime, "cuda.one-major", "kern/common.abi3.so needs libcudart.so.12"),
    "a script of another Python": (moved_script, "startup.scripts", "bin/tool starts /usr/bin/python3"),
    "a truncated library": (cut_library, "kernels.required", "torch/lib/libtorch_cuda.so: cannot be told"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str, stack: Stack) -> None:
    damage, check, words = DAMAGE[name]
    damage(stack)
    found = stack.judged()
    assert found[check].status == "fail", found[check]
    assert words in found[check].found
    assert found["files.drift"].status == "fail"  # whatever it is, it is not as it was sealed


@pytest.mark.parametrize(
    "name", [name for name in DAMAGE if name not in ("an edited file", "a deleted file", "a stray .pth")]
)
def test_damage_of_an_environment_without_a_seal_is_named_too(name: str, stack: Stack) -> None:
    damage, check, words = DAMAGE[name]
    damage(stack)
    found = judged(stack.prefix, None, None, PROFILE)
    assert found[check].status == "fail"
    assert words in found[check].found


def test_an_edit_that_keeps_size_and_time_is_found_by_hash_alone(stack: Stack) -> None:
    path = stack.site / "torch" / "version.py"
    before = path.stat()
    path.write_text(path.read_text().replace("2.11.0", "2.11.1"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert stack.judged()["files.drift"].status == "pass"
    found = stack.judged(deep=True)["files.drift"]
    assert found.status == "fail" and "torch/version.py (torch)" in found.found


def test_deep_finds_an_edit_where_there_is_no_seal(stack: Stack) -> None:
    edit(stack)
    found = judged(stack.prefix, None, None, None, deep=True)["files.drift"]
    assert found.status == "fail" and "torch/__init__.py (torch)" in found.found


def test_an_edit_through_a_hard_link_is_told_as_what_it_is(stack: Stack) -> None:
    path = stack.site / "torch" / "__init__.py"
    os.link(path, stack.prefix.parent / "the-cache-has-it-too")
    edit(stack)
    found = stack.judged()["files.shared-edit"]
    assert found.status == "fail" and "torch/__init__.py" in found.found


def test_the_old_string_abi_is_recognised(stack: Stack) -> None:
    wrong = make.library(undefined=["_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"], needed=["libc10.so"])
    made.install(stack.prefix, "kern", "1.0", {"kern/common.abi3.so": wrong})
    assert "_GLIBCXX_USE_CXX11_ABI=0" in judged(stack.prefix, None, None, None)["abi.torch"].found


def test_variants_for_other_torches_that_lie_beside_the_right_one_are_no_fault(stack: Stack) -> None:
    wrong = make.library(undefined=["_ZN3c104gone"], needed=["libc10.so", "libcudart.so.12"])
    files = {"ext/addon_torch24-cu12.so": wrong, "ext/addon_torch211-cu13.so": made.KERNEL}
    made.install(stack.prefix, "ext", "1.0", files)
    checks = judged(stack.prefix, None, None, None)
    assert checks["abi.torch"].status == checks["cuda.one-major"].status == "pass"
    del files["ext/addon_torch211-cu13.so"]
    (stack.site / "ext" / "addon_torch211-cu13.so").unlink()
    checks = judged(stack.prefix, None, None, None)
    assert checks["abi.torch"].status == checks["cuda.one-major"].status == "fail"


def test_a_library_nobody_requires_and_nobody_accepts_is_a_warning_that_names_it(stack: Stack) -> None:
    checks = judged(stack.prefix, None, None, replace(PROFILE, kernels=Kernels(require=("torch",))))
    assert checks["kernels.required"].status == "pass"
    assert checks["kernels.coverage"].status == "warn"
    assert "kern/hopper.abi3.so: 5 of 5 parts have nothing, only sm_90a" in checks["kernels.coverage"].found


def test_what_is_required_must_be_covered_and_present(stack: Stack) -> None:
    found = judged(stack.prefix, None, None, replace(PROFILE, kernels=Kernels(require=("kern", "absent"))))[
        "kernels.required"
    ]
    assert found.status == "fail"
    assert "kern/hopper.abi3.so" in found.found and "absent: not installed" in found.found
    made.install(stack.prefix, "pure", "1.0", {"pure/__init__.py": b""})
    only_pure = replace(PROFILE, kernels=Kernels(require=("pure",)))
    assert judged(stack.prefix, None, None, only_pure)["kernels.required"].status == "pass"
    for_hopper = replace(PROFILE, gpu=Gpu(compute_capability="9.0"))
    assert "kern/common.abi3.so" in judged(stack.prefix, None, None, for_hopper)["kernels.required"].found


def test_ptx_alone_warns_and_fails_where_the_driver_cannot_take_it(stack: Stack) -> None:
    ptx = make.library(fatbin=make.container(make.entry(make.PTX, 90, isa=(9, 0))))
    made.install(stack.prefix, "kern", "1.0", {"kern/common.abi3.so": ptx})
    assert judged(stack.prefix, None, None)["kernels.ptx"].status == "warn"
    assert judged(stack.prefix, None, None, driver="580.95.05")["kernels.ptx"].status == "warn"
    found = judged(stack.prefix, None, None, driver="575.57.08")["kernels.ptx"]
    assert found.status == "fail" and "kern/common.abi3.so needs PTX 9.0 (driver 580.65.06)" in found.found


def test_one_part_that_the_driver_cannot_compile_is_not_hidden_by_others_that_run(stack: Stack) -> None:
    mixed = make.container(make.entry(make.SASS, 120)) * 9 + make.container(make.entry(make.PTX, 90, isa=(9, 0)))
    made.install(stack.prefix, "kern", "1.0", {"kern/common.abi3.so": make.library(fatbin=mixed)})
    assert judged(stack.prefix, None, None, driver="580.95.05")["kernels.ptx"].status == "pass"
    assert judged(stack.prefix, None, None, driver="575.57.08")["kernels.ptx"].status == "fail"
    lax = replace(PROFILE, kernels=Kernels())
    assert judged(stack.prefix, None, None, lax, driver="575.57.08")["kernels.ptx"].status == "warn"


def test_the_lock_and_the_environment_are_held_against_each_other(stack: Stack) -> None:
    def locked(sass: int) -> Lock:
        code = DeviceCode(targets=("sm_120a", "sm_90a"), coverage={"12.0": Coverage(sass=sass, ptx=0, none=5)})
        packages = tuple(replace(p, device_code=code) if p.name == "kern" else p for p in stack.lock.packages)
        return replace(stack.lock, packages=packages)

    assert judged(stack.prefix, locked(3), stack.seal)["kernels.locked"].status == "pass"
    assert judged(stack.prefix, locked(4), stack.seal)["kernels.locked"].status == "warn"  # hashes vouch for the files
    found = judged(stack.prefix, locked(4), None)["kernels.locked"]
    assert (
        found.status == "fail"
        and "kern: 8 parts, of which 3 run on 12.0, 0 only after compiling PTX, 5 not" in found.found
    )
    assert "kern: 9 parts, of which 4 run on 12.0" in found.expected


def test_stale_lock_other_lock_and_moved_environment(stack: Stack) -> None:
    stale = judged(stack.prefix, stack.lock, stack.seal, replace(PROFILE, requirements=("more",)))
    assert stale["agreement.lock"].status == "fail"
    other = judged(stack.prefix, stack.lock, replace(stack.seal, lock_digest="e" * 64))
    assert other["agreement.seal"].status == "fail"
    moved = stack.prefix.parent / "moved"
    shutil.copytree(stack.prefix, moved, symlinks=True)
    found = judged(moved, stack.lock, stack.seal)
    assert found["agreement.place"].status == "fail"
    assert "startup.scripts" in failing(found)


def test_a_prefix_reached_through_a_link_is_the_same_environment(stack: Stack) -> None:
    link = stack.prefix.parent / "current"
    link.symlink_to(stack.prefix.name)
    assert judged(link, None, None, None)["startup.scripts"].status == "pass"


def test_packages_installed_by_hand(stack: Stack) -> None:
    made.install(stack.prefix, "extra", "1.0", {"extra.py": b""})
    found = stack.judged()["agreement.packages"]
    assert found.status == "fail" and "extra 1.0 (not locked)" in found.found
