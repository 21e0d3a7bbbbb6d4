"""Which device code runs on which GPU, and which driver takes which code, as data with sources. Pure.

Drivers and CUDA releases themselves are in `lock/cuda.py`, which the lock needs too.
"""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from envlock.lock.cuda import BUNDLED_DRIVERS
from envlock.verify.fatbin import Target

# Code for these runs on exactly these devices. Jetson and other integrated GPUs (5.3, 6.2, 7.2, 8.7) take and give
# nothing within their major. Source: torch 2.11 `torch/cuda/__init__.py`, DEVICE_REQUIREMENT; 10.1 was renamed 11.0
# in CUDA 13 (PTX ISA 9.0 release notes), so its code runs on both names.
ONLY_ON: dict[int, frozenset[int]] = {
    53: frozenset({53}),
    62: frozenset({62}),
    72: frozenset({72}),
    87: frozenset({87}),
    101: frozenset({101, 110}),
}

# Devices that run nothing but code made for them, whatever their major says. Source: as above.
APART: frozenset[int] = frozenset({53, 62, 72, 87, 101})

# Members of a family, for `f` targets: portable to the same or later members. Source: LLVM `NVPTX.td`, citing the PTX
# ISA ("family-specific features"); 9.0 has `a` only.
FAMILIES: tuple[frozenset[int], ...] = (frozenset({100, 103, 107}), frozenset({101, 110}), frozenset({120, 121}))

# PTX ISA version -> the CUDA release that brought it. Source: PTX ISA, "Release Notes", table of versions; 9.0 from
# nvcc 13.0 and 9.5 from nvcc 13.5 measured. Forward only: a driver takes the PTX of its own CUDA release and older.
PTX_RELEASES: dict[tuple[int, int], str] = {
    (7, 0): "11.0",
    (7, 1): "11.1",
    (7, 2): "11.2",
    (7, 3): "11.3",
    (7, 4): "11.4",
    (7, 5): "11.5",
    (7, 6): "11.6",
    (7, 7): "11.7",
    (7, 8): "11.8",
    (8, 0): "12.0",
    (8, 1): "12.1",
    (8, 2): "12.2",
    (8, 3): "12.3",
    (8, 4): "12.4",
    (8, 5): "12.5",
    (8, 6): "12.7",
    (8, 7): "12.8",
    (8, 8): "12.9",
    (9, 0): "13.0",
    (9, 1): "13.1",
    (9, 2): "13.2",
    (9, 3): "13.3",
    (9, 4): "13.4",
    (9, 5): "13.5",
}

# Libraries whose kernels do not lie in fat binaries, by the start of the file name: what the sections hold says
# nothing of them. cuFFT 11 and 12 keep 278 MB of kernels in `.ldata`, packed their own way, and one stub for sm_52 or
# sm_75 in `.nv_fatbin` (measured; cuobjdump sees the stub alone).
PACKED_ELSEWHERE: tuple[str, ...] = ("libcufft.so.", "libcufftw.so.")

# CUDA majors by the sonames that tell them. Source: the libraries of CUDA 11.8, 12.x and 13.x toolkits.
CUDA_MAJORS: dict[str, str] = {
    "libcudart.so.11.0": "11",
    "libcublas.so.11": "11",
    "libcublasLt.so.11": "11",
    "libnvrtc.so.11.2": "11",
    "libcufft.so.10": "11",
    "libcusolver.so.11": "11 or 12",
    "libcusparse.so.11": "11",
    "libcudart.so.12": "12",
    "libcublas.so.12": "12",
    "libcublasLt.so.12": "12",
    "libnvrtc.so.12": "12",
    "libnvJitLink.so.12": "12",
    "libcufft.so.11": "12",
    "libcupti.so.12": "12",
    "libcudart.so.13": "13",
    "libcublas.so.13": "13",
    "libcublasLt.so.13": "13",
    "libnvrtc.so.13": "13",
    "libnvJitLink.so.13": "13",
    "libcufft.so.12": "13",
    "libcusolver.so.12": "13",
    "libcupti.so.13": "13",
}


# First CUDA release whose ptxas assembles for a device. Source: release notes of the toolkits; 12.0, 12.1 and 10.3
# measured with the assemblers of triton 3.6.0 (12.8 knows sm_120 and not sm_121; 12.9 knows both).
PTXAS_SINCE: dict[int, str] = {
    75: "10.0",
    80: "11.0",
    86: "11.1",
    87: "11.5",
    89: "11.8",
    90: "11.8",
    100: "12.8",
    101: "12.8",
    120: "12.8",
    103: "12.9",
    121: "12.9",
    110: "13.0",
}


_BUILD = re.compile(r"[-_]?(?:cuda|cu|torch)[-_]?[0-9]+")


def device(capability: str) -> int:
    """Return `12.0` as 120. Raises ValueError."""
    major, _, minor = capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal() and len(minor) == 1):
        raise ValueError(f"no compute capability: {capability!r}")
    return int(major) * 10 + int(minor)


def runs(target: Target, capability: int) -> bool:
    """Tell whether machine code made for a target runs on a device (120 for 12.0), or PTX can be compiled for it.

    LTO-IR and what is unknown run on nothing: they need a linker, or a guess.
    """
    if target.kind == "sass":
        return _sass_runs(target, capability)
    if target.kind == "ptx":
        return _ptx_compiles(target, capability)
    return False


def _sass_runs(target: Target, capability: int) -> bool:
    if target.suffix == "a":
        return target.arch == capability
    if target.suffix == "f":
        return capability >= target.arch and _same_family(target.arch, capability)
    only = ONLY_ON.get(target.arch)
    if only is not None:
        return capability in only
    if capability in APART:
        return False
    return target.arch // 10 == capability // 10 and target.arch <= capability


def _ptx_compiles(target: Target, capability: int) -> bool:
    if target.suffix == "a":
        return target.arch == capability
    if target.suffix == "f":
        return capability >= target.arch and _same_family(target.arch, capability)
    return target.arch <= capability


def _same_family(one: int, other: int) -> bool:
    return any(one in family and other in family for family in FAMILIES)


def ptx_floor(isa: tuple[int, int]) -> str | None:
    """Return the oldest driver that compiles PTX of this ISA version; None where no table tells."""
    release = PTX_RELEASES.get(isa)
    if release is None:
        return None
    later = [cuda for cuda in BUNDLED_DRIVERS if _number(cuda) >= _number(release)]
    return BUNDLED_DRIVERS[min(later, key=_number)] if later else None


def takes_ptx(driver: str, isa: tuple[int, int]) -> bool | None:
    """Tell whether a driver can compile PTX of this ISA version; None where no table tells.

    Minor-version compatibility does not cover this: the driver must be of the PTX's own CUDA release or later.
    """
    floor = ptx_floor(isa)
    if floor is None:
        return None
    try:
        return Version(driver) >= Version(floor)
    except InvalidVersion:
        return None


def _number(release: str) -> tuple[int, int]:
    major, _, minor = release.partition(".")
    return int(major), int(minor or 0)


def assembles(release: str, capability: int) -> bool | None:
    """Tell whether the ptxas of a CUDA release knows a device; None where no table or no release tells."""
    since = PTXAS_SINCE.get(capability)
    if since is None or not release:
        return None
    return _number(release) >= _number(since)


def without_build(path: str) -> str:
    """Return a path without the numbers of CUDA and torch builds: files that differ in these alone are variants."""
    return _BUILD.sub("", path)
