"""GPUs of this machine and their holders: choosing some for one launch, and telling who has what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pynvml

from envlock.environment import build
from envlock.errors import LaunchRefused
from envlock.launch import gpu_locks
from envlock.launch.gpu_locks import Card
from envlock.workflows import sync


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
    """Return this machine's GPUs in NVML's order. Raises LaunchRefused when there is no driver to ask."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise LaunchRefused(
            "the NVIDIA driver cannot be asked for GPUs",
            expected="libnvidia-ml.so.1 of a loaded driver",
            found=str(error),
            hint="envlock run --no-gpu NAME -- ... to launch without a GPU",
        ) from error
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Card(index, str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle)))
            for index, handle in enumerate(handles)
        )
    finally:
        pynvml.nvmlShutdown()


def claim(name: str, words: str) -> Claim:
    """Hold the GPUs that `words` mean for a launch of profile `name`. Raises UsageError, LaunchRefused."""
    chosen = gpu_locks.select(words, cards())
    who = {"profile": name, "pid": os.getpid(), "user": sync.user(), "time": build.now()}
    uuids = tuple(card.uuid for card in chosen)
    return Claim(uuids=uuids, handles=tuple(gpu_locks.hold(gpu_locks.default_folder(), uuids, who)))


def holdings() -> tuple[Holding, ...]:
    """Return every GPU with its holder. Raises LaunchRefused when there is no driver to ask."""
    folder = gpu_locks.default_folder()
    return tuple(Holding(card=card, holder=gpu_locks.holder(folder, card.uuid)) for card in cards())
