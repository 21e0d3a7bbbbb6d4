"""Atomic changes on disk, and locks held by the kernel.

Effects only; no decision is taken here. Light on purpose: a rollback imports it and little else.
"""

from __future__ import annotations

import fcntl
import os

from envlock.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def write_atomically(path: str | os.PathLike[str], data: str | bytes, *, mode: int | None = None) -> None:
    """Write a file so that a reader, or a kill at any instant, sees the old content or the new one, never a part.

    Written beside, fsynced, renamed over. Raises StoreError (full disk, read-only folder) with the old file untouched.
    """
    import tempfile

    content = data.encode() if isinstance(data, str) else data
    folder, file_name = os.path.split(os.fspath(path))
    try:
        os.makedirs(folder or ".", exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder or ".", prefix=f".{file_name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if mode is None:
                try:
                    mode = os.stat(path).st_mode & 0o7777
                except FileNotFoundError:
                    mode = 0o666 & ~_umask()
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            _unlink(name)
            raise
        _sync_folder(folder or ".")
    except OSError as error:
        raise StoreError(
            f"cannot write {file_name}: {error.strerror}",
            where=folder,
            found=str(error),
            hint="free some space, or make the folder writable; nothing was changed",
        ) from error


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add one line to a file, made if need be: one write, appended, so that two writers cannot mix their lines.

    Raises StoreError.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(f"cannot write the history: {error.strerror}", where=str(path), found=str(error)) from error


def point(link: str | os.PathLike[str], target: str) -> None:
    """Make `link` a symbolic link to `target`, replacing an earlier one by rename (never absent in between)."""
    folder, name = os.path.split(os.fspath(link))
    beside = f"{folder}/.{name}.{os.getpid()}.part"
    try:
        _unlink(beside)
        os.symlink(target, beside)
        os.replace(beside, link)
        _sync_folder(folder)
    except OSError as error:
        raise StoreError(f"cannot point {link} at {target}: {error.strerror}", found=str(error)) from error


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Delete a folder: renamed out of sight first, so that nobody ever meets a half-deleted one under its name."""
    import shutil
    import time

    if not os.path.lexists(path):
        return
    folder, name = os.path.split(os.fspath(path))
    doomed = f"{folder}/.{name}.{os.getpid()}.{time.monotonic_ns()}.trash"
    try:
        os.rename(path, doomed)
    except OSError:
        doomed = os.fspath(path)
    shutil.rmtree(doomed, ignore_errors=True)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems cannot; the rename itself is still atomic there
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


class locked:  # noqa: N801 - read as `with locked(path):`
    """Hold the kernel's lock on `path` (created if need be) for a `with` block; it dies with its holder.

    `on_wait` is called once if somebody else holds it now. Entering raises StoreError when the folder cannot be
    written.
    """

    __slots__ = ("_handle", "_kind", "_on_wait", "_path")

    def __init__(
        self, path: str | os.PathLike[str], *, on_wait: Callable[[], None] | None = None, shared: bool = False
    ) -> None:
        self._path = os.fspath(path)
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._on_wait = on_wait
        self._handle = -1

    def __enter__(self) -> None:
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(
                f"cannot write in {folder}: {error.strerror}",
                where=folder,
                found=str(error),
                hint="make it writable, or set ENVLOCK_HOME to a folder on another disk",
            ) from error
        try:
            try:
                fcntl.flock(self._handle, self._kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._on_wait is not None:
                    self._on_wait()
                fcntl.flock(self._handle, self._kind)
        except BaseException:
            os.close(self._handle)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
