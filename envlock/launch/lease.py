"""The lease on a generation: an open descriptor on `seal/lease` that a launched process and its children inherit.

`envlock run` also holds a shared kernel lock through it. A shell cannot lock without a fork, so the shim only keeps the
file open; who removes generations asks `held`, which sees both. Standard library only: the fast path imports it.
"""

from __future__ import annotations

import fcntl
import os

FILE = "seal/lease"


def take(prefix: str) -> int:
    """Hold the lease of a generation in a descriptor that survives exec. Raises OSError (gone, or being removed)."""
    handle = os.open(f"{prefix}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    os.set_inheritable(handle, True)
    return handle


def holders(prefix: str | os.PathLike[str]) -> list[int]:
    """Return the processes, as far as this user may look, that hold the lease of a generation."""
    path = os.path.realpath(f"{os.fspath(prefix)}/{FILE}")
    try:
        target = os.stat(path)
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid() and _has_open(f"/proc/{name}/fd", path, target):
            found.append(int(name))
    return sorted(found)


def _has_open(folder: str, path: str, target: os.stat_result) -> bool:
    try:
        for name in os.listdir(folder):
            link = os.readlink(f"{folder}/{name}")
            if link == path:
                return True
            if not link.endswith(f"/{FILE}"):
                continue
            status = os.stat(f"{folder}/{name}")  # the same store under another path: a bind mount
            if (status.st_dev, status.st_ino) == (target.st_dev, target.st_ino):
                return True
    except OSError:
        pass  # ended meanwhile, or another user's
    return False


def held(prefix: str | os.PathLike[str]) -> bool:
    """Tell whether a launch still runs from this generation."""
    try:
        handle = os.open(f"{os.fspath(prefix)}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return bool(holders(prefix))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return bool(holders(prefix))
