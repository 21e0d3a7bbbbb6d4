"""Who holds which GPU: an advisory kernel lock per card, kept through exec, free the moment its last holder ends."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from envlock.errors import LaunchRefused, UsageError


class Card(NamedTuple):
    """A GPU as NVML tells it."""

    number: int
    uuid: str
    name: str = ""


def select(words: str, cards: Sequence[Card]) -> tuple[Card, ...]:
    """Return the cards that `0-4`, `0,2` or UUIDs (or their unambiguous beginnings) mean. Raises UsageError."""
    chosen: dict[str, Card] = {}
    there = ", ".join(str(card.number) for card in cards) or "none"
    for word in words.split(","):
        first, dash, last = word.strip().partition("-")
        if first.isdecimal() and (not dash or last.isdecimal()):
            wanted = range(int(first), int(last or first) + 1)
            found = [card for card in cards if card.number in wanted]
            missing = [str(number) for number in wanted if number not in {card.number for card in found}]
        else:
            found = [card for card in cards if word.strip() and card.uuid.startswith(word.strip())]
            missing = [word.strip()] if len(found) != 1 else []
        if missing or not found:
            raise UsageError(
                f"--gpus {words}: no such GPU: {', '.join(missing) or repr(word)}",
                expected=f"GPUs of this machine: {there}",
                hint="envlock gpus",
            )
        chosen |= {card.uuid: card for card in found}
    return tuple(chosen.values())


def default_folder(variables: Mapping[str, str]) -> str:
    """Return where the locks of this machine lie, for all users and projects (ENVLOCK_GPU_LOCKS moves them)."""
    chosen = variables.get("ENVLOCK_GPU_LOCKS")
    if chosen:
        return chosen
    return "/run/lock" if os.access("/run/lock", os.W_OK) else "/tmp"  # noqa: S108 - shared on purpose


def _path(folder: str, uuid: str) -> str:
    return f"{folder}/envlock-{uuid}"


def _open(path: str) -> int:
    """Open a lock file, made if need be for all users; the kernel forbids O_CREAT on another user's in /tmp."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        os.fchmod(handle, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is no plain file")
    return handle


def hold(folder: str, uuids: Sequence[str], who: Mapping[str, object]) -> list[int]:
    """Hold these GPUs, all or none, in descriptors that survive exec.

    Raises LaunchRefused naming the card and who has it.
    """
    handles: list[int] = []
    try:
        for uuid in sorted(uuids):  # one order for all, so that two launches cannot wait crosswise
            handle = _open(_path(folder, uuid))
            handles.append(handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = _told(handle)
                raise LaunchRefused(
                    f"GPU {uuid} is held by another launch",
                    found=f"profile {other.get('profile', '?')}, pid {other.get('pid', '?')}, "
                    f"user {other.get('user', '?')}, since {other.get('time', '?')}",
                    hint="envlock gpus shows who holds what; choose others with --gpus",
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(dict(who)).encode(), 0)
            os.set_inheritable(handle, True)
    except OSError as error:
        _release(handles)
        raise LaunchRefused(f"the lock of a GPU cannot be taken: {error}", where=folder) from error
    except BaseException:
        _release(handles)
        raise
    return handles


def _release(handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)


def _told(handle: int) -> dict[str, object]:
    try:
        data = json.loads(os.pread(handle, 4096, 0))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def holder(folder: str, uuid: str) -> dict[str, object] | None:
    """Return who holds a GPU through envlock, or None when nobody does."""
    try:
        handle = os.open(_path(folder, uuid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _told(handle)
    finally:
        os.close(handle)
    return None
