from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from envlock.errors import StoreError
from envlock.lock.document import Artifact, Coverage, Lock, Package
from envlock.verify.wheels import inspect_lock, inspect_wheel
from tests.support import binaries as make
from tests.support.wheels import make_wheel

KERNELS = make.library(fatbin=make.container(make.entry(make.SASS, 90, suffix="a")) * 3)
COMMON = make.library(fatbin=make.container(make.entry(make.SASS, 120)) + make.container(make.entry(make.PTX, 80)))
FILES = {
    "k/flash.abi3.so": KERNELS,
    "k/common.so": COMMON,
    "k/static.a": make.archive(KERNELS),
    "k/one.cubin": make.cubin(120),
}


def test_a_wheel_is_read_without_being_installed(tmp_path: Path) -> None:
    code = inspect_wheel(make_wheel(tmp_path, "k", "1.0", files=FILES), "k", ("12.0", "9.0"))
    assert code is not None
    assert code.targets == ("compute_80", "sm_120", "sm_90a")
    assert code.coverage == {"12.0": Coverage(sass=2, ptx=1, none=3), "9.0": Coverage(sass=3, ptx=1, none=2)}
    assert code.uncovered == ("k/*.cubin", "k/flash.abi3.so")


def test_stored_members_read_the_same(tmp_path: Path) -> None:
    wheel = tmp_path / "k.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for path, data in FILES.items():
            archive.writestr(path, data)
    packed = make_wheel(tmp_path, "k", "1.0", files=FILES)
    assert inspect_wheel(wheel, "k", ("12.0",)) == inspect_wheel(packed, "k", ("12.0",))


def test_a_library_of_any_name_is_read(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "k", "1.0", files={"k/flash.bin": KERNELS, "k/data.bin": b"data" * 99})
    code = inspect_wheel(wheel, "k", ("12.0",))
    assert code is not None and code.uncovered == ("k/flash.bin",)


def test_a_wheel_without_device_code_has_none(tmp_path: Path) -> None:
    assert inspect_wheel(make_wheel(tmp_path, "k", "1.0", files={"k/_c.so": make.library()}), "k", ("12.0",)) is None


def test_what_is_no_wheel_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK\3\4 but no more")
    with pytest.raises(StoreError, match=r"x\.whl"):
        inspect_wheel(tmp_path / "x.whl", "x", ("12.0",))


def test_a_damaged_member_is_never_covered(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "k", "1.0", files={"k/common.so": COMMON[:-40]})
    code = inspect_wheel(wheel, "k", ("12.0",))
    assert code is not None and code.coverage["12.0"].sass == 0
    assert code.uncovered == ("k/common.so",)


def _lock(package: Package) -> Lock:
    return Lock(
        profile="p",
        profile_digest="",
        inputs={"gpu": {"compute-capability": "12.0"}},
        python="3.11",
        machine="x86_64",
        glibc="2.35",
        torch=None,
        packages=(package,),
    )


def test_a_locked_wheel_is_found_in_the_cache_by_its_sha256_alone(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"the wheel").hexdigest()
    archive = tmp_path / "archive-v0" / "id" / "k"
    archive.mkdir(parents=True)
    (archive / "flash.abi3.so").write_bytes(KERNELS)
    folder = tmp_path / "wheels-v9" / "pypi" / "k"
    folder.mkdir(parents=True)
    (folder / "1.0-py3-none-any").symlink_to("../../../archive-v0/id")
    (folder / "1.0-py3-none-any.http").write_bytes(b"\x95\xb0id\x91\x81\xa6Sha256\xd9@" + digest.encode() + b"...")
    package = Package(
        name="k",
        version="1.0",
        index="pypi",
        artifacts=(Artifact(file="k-1.0-py3-none-any.whl", size=1, sha256=digest),),
    )
    found = inspect_lock(_lock(package), tmp_path, tmp_path / "cache")
    assert found["k"].coverage == {"12.0": Coverage(sass=0, ptx=0, none=3)}
    assert found["k"].uncovered == ("k/flash.abi3.so",)
    assert inspect_lock(_lock(package), tmp_path, tmp_path / "cache") == found  # from memory
    other = replace(package, artifacts=(Artifact(file="k-1.0-py3-none-any.whl", size=1, sha256="0" * 64),))
    assert inspect_lock(_lock(other), tmp_path, None) == {}
