"""sha256 of files, remembered by (device, inode, size, mtime): a second environment shares its inodes with the first.

An edit in place changes size or mtime, so it is hashed again and noticed. The memory is a cache: it may vanish.
"""

from __future__ import annotations

import errno
import hashlib
import io
import marshal
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from envlock import disk

Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes, mtime in nanoseconds."""


@contextmanager
def open_regular(path: str | Path) -> Iterator[io.FileIO]:
    """Open a regular file. Raises OSError; also for a pipe, which nobody may ever write to: nothing waits for one."""
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        yield file


def sha256_of(path: str | Path) -> str:
    """Return the sha256 (hex) of a regular file. Raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_regular(path: str | Path, most: int = -1) -> bytes:
    """Return the bytes of a regular file, or its first `most`. Raises OSError.

    What lies in an environment is read so, or with `open_regular`, and never with a plain `open`.
    """
    with open_regular(path) as file:
        return file.read(most)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


_BATCH_FILES, _BATCH_BYTES = 64, 8 << 20
"""What a thread hashes in one go: handing small files over one by one costs as much as hashing them."""


def hash_all(files: Iterable[tuple[str, int]]) -> list[str]:
    """Return the sha256 of (path, bytes) in their order, on all cores; empty for what cannot be read.

    Give the largest first: then no core waits for one in the end.
    """
    batches: list[list[str]] = []
    room = 0
    for path, size in files:
        room -= size
        if room < 0 or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            room = _BATCH_BYTES - size
        batches[-1].append(path)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # hashing drops the GIL
        return [digest for digests in pool.map(_hash_some, batches) for digest in digests]


def _hash_some(paths: Iterable[str]) -> list[str]:
    digests = []
    for path in paths:
        try:
            digests.append(sha256_of(path))
        except OSError:
            digests.append("")
    return digests


class DigestMemory:
    """Known digests; `save` merges what is new with what others saved meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"digests-{sys.implementation.cache_tag}"
        self._lock = folder / ".digests"
        self._new: dict[Identity, str] = {}

    @cached_property
    def _known(self) -> dict[Identity, str]:
        return self._load()  # when the first digest is asked for: mostly, parts are known as a whole

    def _load(self) -> dict[Identity, str]:
        try:
            known = marshal.loads(self._path.read_bytes())  # noqa: S302 written by envlock, under its own store
        except (OSError, ValueError, EOFError, TypeError):
            return {}
        return known if isinstance(known, dict) else {}

    def hash_all(self, root: str, items: Iterable[tuple[str, Identity]], *, remember: bool = True) -> dict[str, str]:
        """Return path -> sha256 for files below `root`, hashing what is not remembered on all cores (it drops the GIL).

        Files whose identity will never come back are not worth remembering.

        Raises OSError for a file that cannot be read.
        """
        digests: dict[str, str] = {}
        missing: list[tuple[str, Identity]] = []
        known = self._known if remember else {}
        for path, identity in items:
            digest = known.get(identity)
            if digest is None:
                missing.append((path, identity))
            else:
                digests[path] = digest
        missing.sort(key=lambda item: -item[1][2])
        fresh = hash_all((f"{root}/{path}", identity[2]) for path, identity in missing)
        for (path, identity), digest in zip(missing, fresh, strict=True):
            if not digest:
                raise FileNotFoundError(errno.ENOENT, "cannot be read", f"{root}/{path}")
            digests[path] = digest
            if remember:
                self._new[identity] = digest
        return digests

    def save(self) -> None:
        """Write what was learnt, merged with what is on disk by now."""
        if not self._new:
            return
        with disk.locked(self._lock):
            merged = self._load()
            merged.update(self._new)
            disk.write_atomically(self._path, marshal.dumps(merged))
        self._known.update(self._new)
        self._new = {}
