"""The platform a profile is locked for, as tags and markers. Pure: never the machine that happens to run envlock."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from packaging.markers import Environment
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envlock.declare.profile import Profile

# PEP 600: manylinux1 = 2_5, manylinux2010 = 2_12, manylinux2014 = 2_17; aarch64 begins with 2014.
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_OLDEST = {"x86_64": 5, "aarch64": 17}


def python_minor(version: str) -> tuple[int, int]:
    """Return `(3, 11)` of `3.11` or `3.11.7`."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def platform_tags(machine: str, glibc: str) -> list[str]:
    """Return the platform tags that fit, best first (PEP 600: newer glibc first, then plain linux)."""
    newest = int(glibc.split(".")[1])
    tags: list[str] = []
    for minor in range(newest, _OLDEST[machine] - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY and (machine == "x86_64" or minor == 17):
            tags.append(f"{_LEGACY[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


@lru_cache(maxsize=8)
def ranked_tags(python: str, machine: str, glibc: str) -> dict[Tag, int]:
    """Return every tag that fits the target with its rank, 0 the best."""
    version = python_minor(python)
    platforms = platform_tags(machine, glibc)
    tags = [
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, f"cp{version[0]}{version[1]}", platforms),
    ]
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def best_wheel(files: Iterable[str], python: str, machine: str, glibc: str) -> str | None:
    """Return the wheel that fits the target best, or None when none fits."""
    ranks = ranked_tags(python, machine, glibc)
    found: tuple[int, tuple[int, str], str] | None = None
    for file in files:
        try:
            _, _, build, tags = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in tags if tag in ranks), default=None)
        if rank is None:
            continue
        order = (-build[0], build[1]) if build else (0, "")
        if found is None or (rank, order) < (found[0], found[1]):
            found = (rank, order, file)
    return None if found is None else found[2]


def uv_platform(profile: Profile) -> str:
    """Return the value of uv's `--python-platform` for the profile's platform and glibc floor."""
    return f"{profile.platform.machine}-manylinux_2_{profile.platform.glibc.split('.')[1]}"


def marker_environment(profile: Profile) -> Environment:
    """Return the PEP 508 environment of the target; a profile that names no micro version counts as `.0`."""
    major, minor = python_minor(profile.python)
    full = profile.python if profile.python.count(".") == 2 else f"{profile.python}.0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": profile.platform.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": f"{major}.{minor}",
        "sys_platform": "linux",
    }
