from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envlock.verify.elf import (
    Dynamic,
    MalformedElf,
    read_defined,
    read_dynamic,
    read_elf,
    read_undefined,
    read_version_needs,
)
from envlock.verify.libraries import newest, read_buffer
from tests.support import binaries as make

WHOLE = make.library(
    needed=["libc.so.6", "libtorch.so"],
    undefined=["_ZN3c105ErrorD1Ev", "printf"],
    defined=["PyInit_x", "other"],
    versions=["GLIBC_2.2.5", "GLIBC_2.34", "GLIBCXX_3.4.29"],
    rpath="$ORIGIN/../lib",
)


def test_what_the_loader_is_told() -> None:
    elf = read_elf(WHOLE)
    assert read_dynamic(elf) == Dynamic(("libc.so.6", "libtorch.so"), "", "$ORIGIN/../lib", "")
    assert read_undefined(elf) == {b"_ZN3c105ErrorD1Ev", b"printf"}
    assert read_undefined(elf, (b"3xyz",)) == frozenset()
    assert read_defined(elf, [b"PyInit_x", b"other", b"absent", b"printf"]) == {b"PyInit_x", b"other"}
    assert newest(read_version_needs(elf), "GLIBC_") == "2.34"
    assert newest(read_version_needs(elf), "GLIBCXX_") == "3.4.29"


def test_a_library_that_a_compiler_made() -> None:
    folder = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    real = sorted(folder.glob("*.so")) or [Path(os.path.realpath("/proc/self/exe"))]
    data = real[0].read_bytes()
    elf = read_elf(data)
    assert any(name.startswith("libc.so") for name in read_dynamic(elf).needed)
    wanted = f"PyInit_{real[0].name.split('.')[0]}".encode()
    assert read_defined(elf, [wanted, b"no_such_symbol"]) <= {wanted}
    assert newest(read_version_needs(elf), "GLIBC_")


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", WHOLE[:63], WHOLE[:-1], b"\x7fELF\x01" + WHOLE[5:], b"\x7fELF\x02\x02" + WHOLE[6:]]
)
def test_what_is_no_whole_elf_file(data: bytes) -> None:
    with pytest.raises(MalformedElf):
        read_elf(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_is_a_problem_and_never_a_crash(data: st.DataObject) -> None:
    whole = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(6, len(whole) - 8))
        whole[at : at + 8] = data.draw(st.binary(min_size=8, max_size=8))
    read = read_buffer(bytes(whole), shared=True)
    assert isinstance(read.problem, str)
    try:
        assert read_defined(read_elf(bytes(whole)), [b"PyInit_x", b"nothing"]) <= {b"PyInit_x"}
    except MalformedElf:
        pass
