"""GPUs of this machine and their holders: choosing some for one launch, and telling who has what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from envlock.environment import origin
from envlock.errors import LaunchRefused, ToolMissing
from envlock.launch import gpu_locks
from envlock.launch.gpu_locks import Card
from envlock.verify import nvml
from envlock.verify.machine import Unavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """GPUs held by this process and by what it becomes."""

    uuids: tuple[str, ...]
    handles: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """One GPU and who holds it through envlock; None: nobody."""

    card: Card
    holder: Mapping[str, object] | None


def cards() -> tuple[Card, ...]:
    """Return this machine's GPUs in NVML's order. Raises ToolMissing when there is no driver to ask."""
    seen = nvml.observe()
    if isinstance(seen, Unavailable):
        raise ToolMissing(
            "the NVIDIA driver cannot be asked for GPUs",
            expected="libnvidia-ml.so.1 of a loaded driver",
            found=seen.reason,
            hint="envlock run --no-gpu NAME -- ... to launch without a GPU",
        )
    return tuple(Card(device.index, device.uuid, device.name) for device in seen.devices)


def claim(name: str, words: str) -> Claim:
    """Hold the GPUs that `words` mean for a launch of profile `name`. Raises UsageError, LaunchRefused."""
    try:
        there = cards()
    except ToolMissing as error:
        raise LaunchRefused(error.message, expected=error.expected, found=error.found, hint=error.hint) from error
    chosen = gpu_locks.select(words, there)
    who = {"profile": name, "pid": os.getpid(), "user": origin.user(), "time": origin.now()}
    uuids = tuple(card.uuid for card in chosen)
    return Claim(uuids=uuids, handles=tuple(gpu_locks.hold(gpu_locks.default_folder(os.environ), uuids, who)))


def holdings() -> tuple[Holding, ...]:
    """Return every GPU with its holder. Raises ToolMissing when there is no driver to ask."""
    folder = gpu_locks.default_folder(os.environ)
    return tuple(Holding(card=card, holder=gpu_locks.holder(folder, card.uuid)) for card in cards())
