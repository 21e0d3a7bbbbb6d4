"""The static checks, one file a theme: each family is a pure function from a subject to its checks."""

from __future__ import annotations

from collections.abc import Callable

from envlock.verify.check import Check
from envlock.verify.checks import abi, agreement, files, kernels, packages, startup, torch
from envlock.verify.subject import Subject

FAMILIES: tuple[Callable[[Subject], tuple[Check, ...]], ...] = (
    agreement.checks,
    torch.checks,
    files.checks,
    packages.checks,
    abi.checks,
    kernels.checks,
    startup.checks,
)
"""In the order they are told: what everything else rests on comes first."""

ONLY_ON_A_GPU = frozenset({"triton.assembler", "triton.toolchain", "kernels.required", "kernels.ptx"})
"""What only matters when something is to run on a GPU: a launch without one is not refused for it."""
