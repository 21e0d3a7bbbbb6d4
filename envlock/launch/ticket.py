"""The ticket: what a full verification established, kept so that the next launches need only compare.

`envs/NAME/launch/` holds `ticket` (for Python), `ticket.sh` (for the shim) and `fresh`. The ticket's own mtime is the
moment the last full scan of the files began; `fresh`'s mtime is the moment that scan stops counting, which a shell can
compare with the age of its own process. All three can be deleted at any time: the next launch verifies.

Standard library only: the fast path imports it.
"""

from __future__ import annotations

import fcntl
import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FORMAT = 2
WINDOW = 2.0
"""Seconds for which a full scan of the files stands: a launch storm scans once (docs/decisions/0041)."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
DRIVER = "/proc/driver/nvidia/version"
GPUS = "/proc/driver/nvidia/gpus"
NODES = "/dev"
SLICES = "/proc/driver/nvidia/capabilities"
HOST = "/proc/sys/kernel/hostname"
VIEW = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
"""What decides which of a host's GPUs a command sees, and in which order."""
VIEWS = 32
"""How many different settings of them one ticket speaks for."""


def folder(environments: str) -> str:
    """Return where a profile's ticket lies, given the folder of its generations."""
    return f"{environments}/launch"


def read(environments: str) -> tuple[dict[str, Any], float] | None:
    """Return the ticket and when its full scan began (seconds since the epoch); None when there is no usable one."""
    path = f"{folder(environments)}/ticket"
    try:
        with open(path, "rb") as file:
            began = os.fstat(file.fileno()).st_mtime
            data = marshal.loads(file.read())  # noqa: S302 - from our own store, as trusted as the shim beside it
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return (data, began) if isinstance(data, dict) and data.get("format") == FORMAT else None


def scan_began(environments: str) -> float:
    """Wait until nobody else is scanning, and return when the last full scan began; the turn is ours until we end.

    Eight ranks that start at once after a pause scan once: the first one does, the others find it done.
    """
    try:
        handle = os.open(f"{folder(environments)}/ticket", os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)  # held until exec or exit closes it
        return os.fstat(handle).st_mtime
    except OSError:
        return 0.0


def write(environments: str, data: dict[str, Any], shell: str, began: float) -> None:
    """Keep a ticket. What cannot be written (another user's store) is left out: such launches verify each time."""
    where = folder(environments)
    try:
        os.makedirs(where, exist_ok=True)
        contents = {"ticket": marshal.dumps({**data, "format": FORMAT}, 4), "ticket.sh": shell.encode(), "fresh": b""}
        for name, content in contents.items():
            beside = f"{where}/.{name}.{os.getpid()}.part"
            with open(beside, "wb") as file:
                file.write(content)
            _date(beside, name, began)
            os.replace(beside, f"{where}/{name}")
    except OSError:
        forget(environments)


def renew(environments: str, began: float) -> None:
    """Note that a full scan which began then found nothing."""
    where = folder(environments)
    try:
        for name in ("ticket", "ticket.sh", "fresh"):
            _date(f"{where}/{name}", name, began)
    except OSError:
        pass  # another user's store: every launch of ours scans


def _date(path: str, name: str, began: float) -> None:
    when = began + WINDOW if name == "fresh" else began
    os.utime(path, (when, when))


def forget(environments: str) -> None:
    """Drop a ticket: the next launch verifies from the ground up."""
    for name in ("ticket", "ticket.sh", "fresh"):
        try:
            os.unlink(f"{folder(environments)}/{name}")
        except OSError:
            continue


def identity(path: str) -> tuple[int, int, int] | None:
    """Return what tells a file from a changed one: inode, size, mtime. None when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def host_facts() -> dict[str, str]:
    """Return boot, driver and GPUs as the kernel tells them, each empty when there is none.

    Containers share the kernel's list of GPUs, not their device nodes and not the host's name; MIG slices come and go
    without a boot.
    """
    return {
        "boot": first_line(BOOT_ID),
        "driver": first_line(DRIVER),
        "gpus": " ".join(gpu_folders()),
        "nodes": " ".join(gpu_nodes()),
        "slices": " ".join(slices()),
        "host": first_line(HOST),
    }


def view(variables: Mapping[str, str]) -> str:
    """Return which GPUs a command with these variables sees, in its own words: a verification stands for them alone.

    Unset and empty differ. A value with a line's end can equal no other view, since a view has one line a variable.
    """
    return "\n".join(f"={variables[name]}" if name in variables else "" for name in VIEW)


def tellable(view: str) -> bool:
    """Tell whether a view can be kept: one line a variable, and nothing that a shell reads in a way of its own."""
    return view.count("\n") == len(VIEW) - 1 and view.replace("\n", "").isprintable() and view.isascii()


def first_line(path: str) -> str:
    """Return a file's first line without its end, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def gpu_folders() -> list[str]:
    """Return the kernel's folder of each GPU, sorted as a shell's glob sorts them."""
    try:
        return [f"{GPUS}/{name}" for name in sorted(os.listdir(GPUS))]
    except OSError:
        return []


def gpu_nodes() -> list[str]:
    """Return the device nodes of single GPUs: in a container, those that were let in."""
    try:
        names = os.listdir(NODES)
    except OSError:
        return []
    return [f"{NODES}/{name}" for name in sorted(names) if name[:6] == "nvidia" and name[6:7] in _DIGITS]


_DIGITS = tuple("0123456789")


def slices() -> list[str]:
    """Return the MIG slices there are now, of all GPUs."""
    found = []
    try:
        for name in sorted(os.listdir(SLICES)):
            if name[:3] == "gpu" and os.path.isdir(f"{SLICES}/{name}/mig"):
                mig = f"{SLICES}/{name}/mig"
                found += [f"{mig}/{one}" for one in sorted(os.listdir(mig)) if one[:2] == "gi"]
    except OSError:
        pass
    return found
