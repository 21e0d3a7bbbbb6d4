"""Packages of one lock that are one library for two CUDA majors. Pure.

The cu12 and cu13 packages of one library install the same files, the last one wins (pytorch/pytorch#186591).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envlock.lock.document import Package

SUFFIX = re.compile(r"(.+)-cu([0-9]{2})$", re.ASCII)
"""`nvidia-nccl-cu13` is nccl for CUDA 13."""


def twins(packages: Iterable[Package]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of packages that are one library built for different CUDA majors."""
    families: dict[str, dict[str, str]] = {}
    for package in packages:
        match = SUFFIX.match(package.name)
        if match:
            families.setdefault(match[1], {})[match[2]] = package.name
        elif package.name.startswith("nvidia-"):
            major = package.version.partition(".")[0]  # NVIDIA's wheels have no epochs
            if major in ("12", "13"):
                families.setdefault(package.name, {})[major] = package.name
    return tuple(tuple(sorted(members.values())) for _, members in sorted(families.items()) if len(members) > 1)
