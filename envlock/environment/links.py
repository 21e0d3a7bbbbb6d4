"""How files get from uv's cache into an environment: reflink where the file system can, else hard link, else copy."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from envlock.declare.profile import Links

_FICLONE = 0x40049409  # ioctl_ficlone(2): make one file share another's extents


def choose(wanted: Links, cache: Path, store: Path) -> str:
    """Return `reflink`, `hardlink` or `copy`: what was asked for, or by `auto` the best that works from cache to store.

    A link asked for that cannot be had falls back to a copy; the seal records what was used.
    """
    if wanted == "copy":
        return "copy"
    for folder in (cache, store):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache, prefix=".envlock-link-") as source:
        source.write(b"x" * 4096)
        source.flush()
        # Named after the source, whose name nobody else has: profiles are synced side by side in one process.
        target = store / f"{Path(source.name).name}.there"
        try:
            if wanted in ("auto", "reflink") and _reflinks(source.fileno(), target):
                return "reflink"
            if wanted in ("auto", "hardlink") and _hardlinks(source.name, target):
                return "hardlink"
        finally:
            target.unlink(missing_ok=True)
    return "copy"


def _reflinks(source: int, target: Path) -> bool:
    try:
        with target.open("wb") as file:
            fcntl.ioctl(file.fileno(), _FICLONE, source)
    except OSError:
        return False
    return True


def _hardlinks(source: str, target: Path) -> bool:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def uv_mode(links: str) -> str:
    """Return uv's word for it."""
    return {"reflink": "clone", "hardlink": "hardlink", "copy": "copy"}[links]
