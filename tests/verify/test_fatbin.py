from __future__ import annotations

import mmap
import tempfile
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envlock.verify.coverage import count
from envlock.verify.fatbin import DeviceCode, Kind, Suffix, Target, parse_target, read_library
from tests.support import binaries as make

SM90A = make.entry(make.SASS, 90, suffix="a")
SM120F = make.entry(make.SASS, 120, suffix="f", header=112)
PTX120 = make.entry(make.PTX, 120, isa=(8, 7), header=96)


def targets(code: DeviceCode) -> list[str]:
    return [f"{number}x{'+'.join(map(str, container))}" for container, number in code.containers]


def test_containers_and_their_targets() -> None:
    both = make.container(SM90A, SM120F, PTX120)
    code = read_library(make.library(fatbin=both + b"\0" * 24 + make.container(SM90A) + both))
    assert targets(code) == ["1xsm_90a", "2xsm_90a+sm_120f+compute_120@8.7"]
    assert code.problems == ()
    assert code.total == 3


def test_relocatable_objects_archives_and_lto() -> None:
    object_ = make.library(fatbin=make.container(make.entry(make.LTO, 120)), section="__nv_relfatbin", kind=1)
    assert targets(read_library(object_)) == ["1xlto_120"]
    packed = make.archive(object_, b"text of an odd length", make.library(fatbin=make.container(SM90A)))
    assert targets(read_library(packed)) == ["1xlto_120", "1xsm_90a"]


@pytest.mark.parametrize(
    ("data", "target"),
    [
        (make.cubin(120, said="sm_120f"), "sm_120f"),
        (make.cubin(120, said="sm_120a"), "sm_120a"),
        (make.cubin(90), "sm_90"),
        (make.cubin(90, said="sm_100f"), "sm_90"),  # a note that contradicts the header says nothing
        (make.cubin(75, abi=7), "sm_75"),
    ],
)
def test_bare_cubins(data: bytes, target: str) -> None:
    assert targets(read_library(data)) == [f"1x{target}"]


def test_what_a_device_linker_left_in_a_library_is_not_what_gets_loaded() -> None:
    left = make.library(fatbin=make.container(make.entry(make.SASS, 120)), section="__nv_relfatbin")
    assert read_library(left) == DeviceCode()


def test_a_library_without_device_code_and_a_file_that_is_none() -> None:
    assert read_library(make.library()) == DeviceCode()
    assert read_library(b"#!/bin/sh\n") == DeviceCode()
    assert read_library(b"") == DeviceCode()
    assert read_library(make.library(fatbin=make.container())) == DeviceCode()


@pytest.mark.parametrize(
    "damage",
    [
        make.container(SM90A)[:-1],
        make.container(SM90A)[:20],
        make.container(SM90A) + b"\1" * 32,
        make.container(make.entry(0x40, 120)),
        make.container(SM90A, b"\1" * 8),
        make.container(make.entry(make.SASS, 120)[:4] + b"\0\0\0\0" + make.entry(make.SASS, 120)[8:]),
    ],
)
def test_what_is_not_understood_is_told(damage: bytes) -> None:
    assert read_library(make.library(fatbin=damage)).problems


def test_an_unknown_kind_never_covers() -> None:
    code = read_library(make.library(fatbin=make.container(make.entry(0x40, 120), make.entry(make.LTO, 120))))
    assert count(code, "12.0").none == 1
    assert count(code, "12.0").sass == count(code, "12.0").ptx == 0


kinds = st.sampled_from([make.SASS, make.PTX, make.LTO])
entries = st.builds(
    lambda kind, arch, suffix, size, header: make.entry(
        kind, arch, suffix=suffix, payload=b"\7" * (8 * size), header=header
    ),
    kinds,
    st.integers(20, 250),
    st.sampled_from(["", "a", "f"]),
    st.integers(0, 20),
    st.sampled_from([64, 80, 96, 112, 120]),
)


@given(st.lists(st.lists(entries, min_size=1, max_size=5), max_size=6))
def test_every_entry_is_found_whatever_lies_in_payloads(parts: list[list[bytes]]) -> None:
    code = read_library(make.library(fatbin=b"".join(make.container(*part) for part in parts)))
    assert not code.problems
    assert sum(len(container) * number for container, number in code.containers) == sum(map(len, parts))


VALID = make.archive(
    make.library(fatbin=make.container(SM90A, SM120F, PTX120) * 3, needed=["libc.so.6"]),
    make.cubin(120, said="sm_120a"),
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_bytes_end_without_a_crash(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([VALID, VALID[68:], make.cubin(120, said="sm_120f")])))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(whole) - 8))
        whole[at : at + 8] = data.draw(
            st.sampled_from(
                [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, data.draw(st.binary(min_size=8, max_size=8))]
            )
        )
    cut = data.draw(st.integers(0, len(whole)))
    assert isinstance(read_library(bytes(whole)), DeviceCode)
    assert isinstance(read_library(bytes(whole[:cut])), DeviceCode)


def test_a_cut_library_is_never_better_covered_than_the_whole() -> None:
    whole = make.library(fatbin=make.container(SM90A, PTX120) * 4)
    for cut in range(0, len(whole), 7):
        code = read_library(whole[:cut])
        assert code.problems or code == DeviceCode()


def test_hostile_sizes_do_not_take_time() -> None:
    """Sections that overlap, containers that claim everything, archives of a million empty members."""
    bomb = make.container() * 100_000 + b"\0" * 1_000_000
    began = time.monotonic()
    assert read_library(make.library(fatbin=bomb)).containers == ()
    assert read_library(make.archive(*[b""] * 20_000)).containers == ()
    assert time.monotonic() - began < 5


def test_sections_that_name_one_extent_many_times_are_refused() -> None:
    whole = bytearray(make.library(fatbin=make.container(SM90A) * 1000, section=".nv_fatbin"))
    table = int.from_bytes(whole[40:48], "little")
    count_ = int.from_bytes(whole[60:62], "little")
    row = whole[table + 64 * (count_ - 2) : table + 64 * (count_ - 1)]
    whole += row * 4000
    whole[60:62] = (count_ + 4000).to_bytes(2, "little")
    assert read_library(bytes(whole)).problems == ("sections of device code that overlap",)


def test_mapped_files_read_the_same() -> None:
    whole = make.library(fatbin=make.container(SM90A) + b"\0" * 40 + make.container(PTX120))
    with tempfile.TemporaryFile() as file:
        file.write(whole)
        file.flush()
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            assert read_library(data) == read_library(whole)


@given(
    st.sampled_from(["sass", "ptx", "lto", "unknown"]),
    st.integers(0, 999),
    st.sampled_from(["", "a", "f"]),
    st.tuples(st.integers(1, 20), st.integers(0, 9)),
)
def test_targets_survive_as_text(kind: Kind, arch: int, suffix: Suffix, isa: tuple[int, int]) -> None:
    target = Target(kind, arch, suffix, isa if kind == "ptx" else None)
    assert parse_target(str(target)) == target
