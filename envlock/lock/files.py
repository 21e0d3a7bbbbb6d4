"""Lock files on disk."""

from __future__ import annotations

from pathlib import Path

from envlock.errors import Fault, LockError, LockStale
from envlock.layout import Layout
from envlock.lock import canonical, text
from envlock.lock.document import Lock


def read_lock(path: Path, profile: str | None = None) -> tuple[Lock, str]:
    """Return the lock in a file and the sha256 of its bytes. Raises LockError, LockStale when there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        name = profile or path.stem
        raise LockStale(
            f"profile {name} has no lock", where=str(path), expected=f"locks/{name}.toml", hint=f"envlock lock {name}"
        ) from error
    except OSError as error:
        raise LockError(str(path), [Fault("", f"cannot be read: {error.strerror}")]) from error
    try:
        words = content.decode()
    except UnicodeDecodeError as error:
        raise LockError(str(path), [Fault("", f"not UTF-8: {error}")], hint=f"envlock lock {path.stem}") from error
    return text.parse(words, str(path), profile=profile), canonical.sha256(content)


def load_lock(layout: Layout, name: str) -> tuple[Lock, str]:
    """Return the committed lock of a profile and its digest. Raises LockError, LockStale when there is none."""
    return read_lock(layout.lock(name), name)
