"""Which GPUs a process will see: CUDA's reading of its variables, held against what NVML lists. Pure.

NVML numbers cards by their bus, and so does CUDA when CUDA_DEVICE_ORDER says PCI_BUS_ID or all cards are of one model;
otherwise CUDA puts the fastest first. A word that CUDA does not understand ends its list silently: here it is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envlock.verify.machine import Device

SETTING, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


@dataclass(frozen=True, kw_only=True, slots=True)
class Visible:
    """What a process sees."""

    devices: tuple[Device, ...] = ()
    """MIG slices that are named by UUID stand here as devices of their own."""
    wrong: str = ""
    """Why this cannot be what is meant."""
    remedy: str = "unset CUDA_VISIBLE_DEVICES, or envlock run --gpus 0-3"
    doubt: str = ""
    """Why CUDA may show something else: what is probed then is not remembered."""
    by_number: bool = False
    """Cards are named by CUDA's numbers; only their UUIDs, told by CUDA itself, prove which ones they are."""


def visible(devices: Sequence[Device], variables: Mapping[str, str]) -> Visible:
    """Return what CUDA lets through, or what is wrong with the words."""
    setting = variables.get(SETTING)
    if setting is None:
        return Visible(devices=tuple(devices), doubt=_slicing(devices))
    if not setting.strip():
        return Visible(wrong=f"{SETTING} is empty: no GPU is visible")
    words = [word.strip() for word in setting.split(",")]
    if len({_kind(word) for word in words}) > 1:
        return Visible(wrong=f"{SETTING}={setting}: numbers and UUIDs are mixed; CUDA ends its list there")
    chosen: list[Device] = []
    for word in words:
        found = _named(word, devices)
        if not found:
            return Visible(wrong=f"{SETTING}={setting}: there is no GPU {word!r}; CUDA ignores it and all after it")
        if len(found) > 1:
            return Visible(wrong=f"{SETTING}={setting}: {word!r} begins {len(found)} UUIDs; CUDA shows none")
        if found[0] in chosen:
            return Visible(wrong=f"{SETTING}={setting}: GPU {word!r} twice")
        chosen.append(found[0])
    by_number = _kind(words[0]) == "number"
    models = sorted({device.name for device in devices})
    if by_number and len(models) > 1 and variables.get(ORDER) != "PCI_BUS_ID":
        return Visible(
            wrong=f"{SETTING}={setting}: CUDA numbers different cards ({', '.join(models)}) fastest first, "
            "NVML by bus: which ones are meant cannot be told",
            remedy=f"{ORDER}=PCI_BUS_ID, or name them by UUID: envlock run --gpus does",
        )
    return Visible(devices=tuple(chosen), doubt=_slicing(chosen), by_number=by_number)


def _kind(word: str) -> str:
    return word[:4] if word.startswith(("GPU-", "MIG-")) else "number"


def _named(word: str, devices: Sequence[Device]) -> list[Device]:
    kind = _kind(word)
    if kind == "GPU-":
        return [device for device in devices if device.uuid.startswith(word)]
    if kind == "MIG-":
        return [one for device in devices for one in device.slices if one.uuid.startswith(word)]
    if not (word.isascii() and word.isdecimal()):
        return []
    number = word.lstrip("0") or "0"  # as text: a number of thousands of digits is no number to Python
    return [device for device in devices if str(device.index) == number]


def _slicing(chosen: Sequence[Device]) -> str:
    sliced = [device for device in chosen if device.mig]
    if not sliced:
        return ""
    return f"GPU {sliced[0].index} is in MIG mode: CUDA shows one of its slices, which cannot be told before"
