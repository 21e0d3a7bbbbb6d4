"""Damages of an environment without a seal: there is nothing to differ from, so each must be told by what it is."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envlock.declare.profile import Kernels
from envlock.verify.check import Check
from tests.support import binaries as make
from tests.support import environments as made
from tests.support.environments import PROFILE, judged
from tests.support.project import Project

LAX = replace(PROFILE, kernels=Kernels())


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    made.make_stack(tmp_path / "venv")
    return tmp_path / "venv"


def site(prefix: Path) -> Path:
    return prefix / "lib" / f"python{made.MINOR}" / "site-packages"


def foreign(prefix: Path, *, deep: bool = False) -> dict[str, Check]:
    return judged(prefix, None, None, PROFILE, deep=deep)


def rewrite(path: Path, content: bytes | str) -> None:
    path.unlink()
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def away(path: Path) -> None:
    """Move a file or folder out of the prefix and leave a link."""
    elsewhere = path.parents[5] / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    shutil.move(path, elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def linked_package(prefix: Path) -> None:
    away(site(prefix) / "nvidia")


def linked_requirement(prefix: Path) -> None:
    shutil.rmtree(site(prefix) / "kern-1.0.dist-info")
    away(site(prefix) / "kern")


def empty_library(prefix: Path) -> None:
    rewrite(site(prefix) / "kern" / "common.abi3.so", b"")


def text_library(prefix: Path) -> None:
    rewrite(site(prefix) / "torch" / "lib" / "libc10.so", "version https://git-lfs.github.com/spec/v1\n")


def other_cpu(prefix: Path) -> None:
    wrong = {"x86_64": 183}.get(os.uname().machine, 62)
    rewrite(
        site(prefix) / "kern" / "common.abi3.so", make.library(fatbin=made.fat((make.SASS, 120, "a")), machine=wrong)
    )


def edited_version(prefix: Path) -> None:
    path = site(prefix) / "kern-1.0.dist-info" / "METADATA"
    rewrite(path, path.read_text().replace("Version: 1.0", "Version: 1.1"))


def no_metadata(prefix: Path) -> None:
    (site(prefix) / "kern-1.0.dist-info" / "METADATA").unlink()


def no_record(prefix: Path) -> None:
    (site(prefix) / "kern-1.0.dist-info" / "RECORD").unlink()


def empty_record(prefix: Path) -> None:
    rewrite(site(prefix) / "torch-2.11.0.dist-info" / "RECORD", "")


def record_without_hashes(prefix: Path) -> None:
    path = site(prefix) / "torch-2.11.0.dist-info" / "RECORD"
    rewrite(path, "".join(f"{line.split(',')[0]},,\n" for line in path.read_text().splitlines()))


def record_without_one_hash(prefix: Path) -> None:
    path = site(prefix) / "torch-2.11.0.dist-info" / "RECORD"
    lines = path.read_text().splitlines()
    rewrite(path, "".join(f"{line}\n" for line in [lines[0].split(",")[0] + ",,", *lines[1:]]))


def record_without_a_library(prefix: Path) -> None:
    path = site(prefix) / "kern-1.0.dist-info" / "RECORD"
    rewrite(path, "".join(f"{line}\n" for line in path.read_text().splitlines() if "common" not in line))


def other_interpreter(prefix: Path) -> None:
    other = prefix.parent / "other" / "bin" / "python3"
    other.parent.mkdir(parents=True)
    other.write_bytes(make.library(needed=["libpython3.99.so.1.0"]))
    rewrite_link(prefix / "bin" / "python", other)


def named_interpreter(prefix: Path) -> None:
    """A static one tells by its name alone."""
    other = prefix.parent / "other" / "bin" / "python3.99"
    other.parent.mkdir(parents=True)
    other.write_bytes(make.library())
    rewrite_link(prefix / "bin" / "python", other)


def rewrite_link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def second_claim(prefix: Path) -> None:
    """By hand: a folder of another name, whose metadata claims torch."""
    folder = site(prefix) / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: Torch\nVersion: 1.0\n")


def old_claim(prefix: Path) -> None:
    (site(prefix) / "torch-2.10.0-py3.11.egg-info").mkdir()


def empty_folder(prefix: Path) -> None:
    (site(prefix) / "kern-2.0.dist-info").mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a package that lies elsewhere": (linked_package, "files.outside", "nvidia leads to /"),
    "a required package that lies elsewhere": (linked_requirement, "files.outside", "kern leads to /"),
    "an empty library": (empty_library, "abi.readable", "kern/common.abi3.so: empty"),
    "a library that is text": (text_library, "abi.readable", "torch/lib/libc10.so: not an ELF file"),
    "a library for another CPU": (other_cpu, "abi.readable", "kern/common.abi3.so: for "),
    "another version in METADATA": (edited_version, "packages.metadata", "kern-1.0.dist-info: METADATA of version 1.1"),
    "no RECORD": (no_record, "files.recorded", "kern: no RECORD"),
    "an empty RECORD": (empty_record, "files.recorded", "torch: an empty RECORD"),
    "a RECORD without hashes": (record_without_hashes, "files.recorded", "torch: no hash in its RECORD"),
    "a RECORD without one hash": (record_without_one_hash, "files.recorded", "torch: 1 of 5 files without a hash"),
    "a RECORD without a library": (
        record_without_a_library,
        "files.recorded",
        "kern/common.abi3.so: recorded by no distribution",
    ),
    "another interpreter": (other_interpreter, "abi.python", "bin/python is Python 3.99 (/"),
    "another interpreter, by its name": (named_interpreter, "abi.python", "bin/python is Python 3.99 (/"),
    "two claims by metadata": (
        second_claim,
        "packages.one-version",
        "other-1.0.dist-info and torch-2.11.0.dist-info",
    ),
    "a claim by old metadata": (
        old_claim,
        "packages.one-version",
        "torch-2.11.0.dist-info and torch-2.10.0-py3.11.egg-info",
    ),
    "an empty folder": (empty_folder, "packages.one-version", "kern-1.0.dist-info and kern-2.0.dist-info"),
    "an empty folder's metadata": (
        empty_folder,
        "packages.metadata",
        "kern-2.0.dist-info: no METADATA that can be read",
    ),
    "no METADATA": (no_metadata, "packages.metadata", "kern-1.0.dist-info: no METADATA that can be read"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_without_hashing_anything(name: str, prefix: Path) -> None:
    damage, check, words = DAMAGE[name]
    before = foreign(prefix)[check]
    assert before.status == "pass", before
    damage(prefix)
    found = foreign(prefix)[check]
    assert found.status == "fail", found
    assert words in found.found
    assert found.where and found.remedy


def test_what_nobody_requires_is_a_warning(prefix: Path) -> None:
    empty_library(prefix)
    assert judged(prefix, None, None, LAX)["abi.readable"].status == "warn"
    loose = prefix.parent / "loose"
    loose.mkdir()
    (site(prefix) / "loose").symlink_to(loose)
    found = judged(prefix, None, None, LAX)["files.outside"]
    assert (found.status, found.found) == ("warn", f"loose leads to {loose}")


def test_a_package_that_nobody_requires_and_nobody_can_check_is_named(prefix: Path) -> None:
    (site(prefix) / "nvidia_nccl_cu13-2.28.9.dist-info" / "RECORD").unlink()
    found = foreign(prefix)["files.recorded"]
    assert (found.status, found.found) == ("warn", "nvidia-nccl-cu13: no RECORD")


def test_what_fails_stands_before_what_warns_and_both_are_named(prefix: Path) -> None:
    (site(prefix) / "nvidia_nccl_cu13-2.28.9.dist-info" / "RECORD").unlink()
    empty_record(prefix)
    found = foreign(prefix)["files.recorded"]
    assert (found.status, found.found) == ("fail", "torch: an empty RECORD, nvidia-nccl-cu13: no RECORD")


def test_what_the_seal_holds_needs_no_record(prefix: Path) -> None:
    no_record(prefix)
    lock = made.make_lock(prefix)
    assert judged(prefix, lock, made.make_seal(prefix, lock))["files.recorded"].status == "pass"


def test_an_interpreter_that_does_not_tell_is_a_warning_and_a_copy_does_tell(prefix: Path) -> None:
    script = prefix.parent / "python"
    script.write_text("#!/bin/sh\n")
    rewrite_link(prefix / "bin" / "python", script)
    found = foreign(prefix)["abi.python"]
    assert found.status == "warn" and "does not tell its Python" in found.found
    (prefix / "bin" / "python").unlink()
    shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / "python")
    assert foreign(prefix)["abi.python"].status == "pass"


def test_a_library_that_is_a_link_is_judged_by_what_it_leads_to(prefix: Path) -> None:
    hopper = prefix.parent / "hopper.so"
    hopper.write_bytes(make.library(fatbin=made.fat((make.SASS, 90, "a"))))
    path = site(prefix) / "kern" / "common.abi3.so"
    path.unlink()
    path.symlink_to(hopper)
    found = foreign(prefix)
    assert found["files.outside"].status == "warn"
    assert found["kernels.required"].status == "fail"
    assert "kern/common.abi3.so" in found["kernels.required"].found


def test_a_link_from_one_library_to_its_neighbour_is_no_fault(prefix: Path) -> None:
    (site(prefix) / "torch" / "lib" / "libc10.so.2").symlink_to("libc10.so")
    assert foreign(prefix)["files.outside"].status == "pass"


@pytest.mark.parametrize("name", ["ops", "ops.bin", "lib/ops.so-1.0"])
def test_a_library_is_one_under_any_name(prefix: Path, name: str) -> None:
    path = site(prefix) / "kern" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make.library(fatbin=made.fat((make.SASS, 90, "a")), needed=["libcudart.so.12"]))
    found = foreign(prefix)
    assert found["kernels.required"].status == found["cuda.one-major"].status == "fail"
    assert f"kern/{name}: 1 of 1 parts have nothing" in found["kernels.required"].found


def test_a_program_is_no_library(prefix: Path) -> None:
    """Position-independent programs are of the same type, but name their loader."""
    before = foreign(prefix)["abi.readable"].found
    shutil.copy(shutil.which("true") or "", site(prefix) / "kern" / "tool")
    assert foreign(prefix)["abi.readable"].found == before


def test_the_locks_platform_is_what_counts(prefix: Path) -> None:
    lock = replace(made.make_lock(prefix), machine="aarch64")
    found = judged(prefix, lock, None)["abi.readable"]
    assert found.status == "fail"
    assert found.expected == "whole ELF files for aarch64"


def test_a_version_may_be_written_in_several_ways(prefix: Path) -> None:
    made.install(prefix, "some.name", "1.0.0+cu128", {"some.py": b""})
    folder = site(prefix) / "some.name-1.0.0+cu128.dist-info"
    text = (folder / "METADATA").read_text()
    rewrite(folder / "METADATA", text.replace("some.name", "Some_Name").replace("1.0.0+cu128", "1.0+CU128"))
    assert foreign(prefix)["packages.metadata"].status == "pass"


def test_the_command_line_says_so(project: Project) -> None:
    project.wheel("kern", "1.0", files={"kern/ops.so": made.KERNEL})
    project.wheel("leaf", "1.0")
    project.simple_profile(
        "app", "kern", "leaf", more='[gpu]\ncompute-capability = "12.0"\n[kernels]\nrequire = ["kern"]\n'
    )
    project.ok("lock")
    project.ok("sync")
    words = ("verify", "app", "--python", str(project.prefix("app")), "--tier", "static")
    project.ok(*words)
    rewrite(project.site("app") / "kern" / "ops.so", b"")
    path = project.site("app") / "leaf-1.0.dist-info" / "METADATA"
    rewrite(path, path.read_text().replace("Version: 1.0", "Version: 2.0"))
    (project.site("app") / "leaf-1.0.dist-info" / "RECORD").unlink()
    said = project.run(*words)
    assert said.code == 1
    assert "! files.recorded: leaf: no RECORD" in said.out
    assert "x abi.readable: kern/ops.so: empty" in said.out
    assert "x packages.metadata: leaf-1.0.dist-info: METADATA of version 2.0" in said.out


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_nothing_waits_for_a_pipe(project: Project, deep: tuple[str, ...]) -> None:
    """Whatever is read, a pipe in its place that nobody ever writes to is told, and read by nobody."""
    project.wheel("kern", "1.0", files={"kern/ops.so": made.KERNEL}, scripts={"tool": "kern:main"})
    project.wheel("torch", "2.11.0", files=made.torch_files("13.0"))
    project.simple_profile("app", "kern", "torch")
    project.ok("lock")
    project.ok("sync")
    prefix, packages = project.prefix("app"), project.site("app")
    pipes = [
        *(packages / "kern-1.0.dist-info" / name for name in ("RECORD", "METADATA", "INSTALLER", "entry_points.txt")),
        packages / "kern-1.0.dist-info" / "direct_url.json",
        packages / "kern" / "ops.so",
        packages / "torch" / "version.py",
        packages / "stray.pth",
        prefix / "pyvenv.cfg",
        prefix / "bin" / "tool",
        prefix / "seal" / "code.json",
    ]
    for path in pipes:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    python = str(prefix / "bin" / "python")
    for words in (("app",), ("--python", python), ("app", "--python", python)):
        process = project.start("verify", *words, "--tier", "static", "--json", *deep)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 1, err
        checks = {check["id"]: check for check in json.loads(out)["checks"]}
        assert checks["packages.metadata"]["status"] == "fail"
    process = project.start("adopt", str(prefix), "--as", "copy")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1, said
