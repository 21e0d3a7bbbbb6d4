"""The stamp: what is compared to see at once that an environment is still the sealed one, without hashing anything.

`seal/stamp` is text: a first line `envlock-stamp 2 N TOP`, then `mtime_ns size path` for every file and folder of the
generation but the seal, byte code, and the prefix itself; TOP are the names directly in the prefix, with slashes
between. The first N lines are the *vital* ones (the interpreter and the scripts, native libraries, RECORDs, `.pth`
files, what lies directly in site-packages): they are compared at every launch; all of them when a full scan is due, and
by whoever verifies. A folder's mtime tells that a name came or went, and has size `-`.

Standard library only: the fast path imports it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO, NoReturn

    Lines = tuple[list[tuple[tuple[int, int], str, str]], str]
    """The vital ones, each with its rank and path, and the text of the others."""

FILE = "stamp"
HEAD = "envlock-stamp 2"
VITAL = 400  # an lstat is 2 to 5 microseconds from Python; the full scan compares the rest
_PROCESSES = 16  # beyond it the kernel's own locks on the folders are what is waited for
_SHARE = 200_000
"""Bytes of the stamp (some 1,500 lines, 5 ms of lstat) that are worth a process of their own."""
_LONGEST = 3 * 4096  # bytes a line can have: numbers and PATH_MAX (limits.h), every byte of it escaped
_MODE = 0o6400  # set-user-ID, set-group-ID and readable by its owner: the last alone is right (environment/modes.py)
_OLD = b"envlock-stamp 1"  # knows no names at the top: good for the vital paths alone
_UNSEEN = frozenset({"seal", ".seal.part"})


def lines(seen: Iterable[tuple[str, int | None, int]]) -> Lines:
    """Return the lines of what a walk saw: (path, size in bytes or None for a folder, mtime in nanoseconds)."""
    ranked: list[tuple[tuple[int, int], str, str]] = []
    rest: list[str] = []
    for path, size, mtime in seen:
        line = f"{mtime} {'-' if size is None else size} {_escaped(path)}\n"
        rank = _rank(path, size)
        if rank[0] < _REST:
            ranked.append((rank, path, line))
        else:
            rest.append(line)
    return ranked, "".join(rest)


def of(pieces: Iterable[Lines], top: Iterable[str]) -> bytes:
    """Return the stamp of a tree, of the lines of its parts and the names directly in the prefix.

    Take the walk after the last file was written, before the seal.
    """
    ranked: list[tuple[tuple[int, int], str, str]] = []
    rest: list[str] = []
    for some, others in pieces:
        ranked += some
        rest.append(others)
    ranked.sort()
    text = "".join(line for _, _, line in ranked) + "".join(rest)
    names = _escaped("/".join(sorted(top)))
    return f"{HEAD} {min(VITAL, len(ranked))} {names}\n{text}".encode("utf-8", "surrogateescape")


def _escaped(path: str) -> str:
    """Return a path as it can stand in a line; nearly all can as they are."""
    return path.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in path or "\\" in path else path


def _path(text: bytes) -> bytes:
    """Return the path that `_escaped` wrote."""
    return b"\\".join(part.replace(b"\\n", b"\n") for part in text.split(b"\\\\")) if b"\\" in text else text


_REST = 9


def _rank(path: str, size: int | None) -> tuple[int, int]:
    """Order paths by how much a change of them matters, big libraries first; `_REST` waits for the full scan."""
    name = path.rpartition("/")[2]
    in_site = path.partition("site-packages/")[2]
    if path in ("bin", "pyvenv.cfg") or name == "site-packages":
        return 0, 0
    if name.endswith(".pth") or in_site in ("torch", "torch/version.py", "torch/lib", "sitecustomize.py"):
        return 1, 0
    if in_site and "/" not in in_site and not in_site.endswith(".dist-info"):
        return 2, 0
    if path.startswith("bin/"):
        return 3, 0
    if size is not None and (name.endswith(".so") or ".so." in name):
        return 4, -size
    if in_site.count("/") == 1 and name == "__init__.py":
        return 5, 0
    if in_site.count("/") == 1 and (name.endswith(".py") or name == "RECORD"):
        return 6, 0
    return _REST, 0


def differing(prefix: str) -> str | None:
    """Return the first vital path that is not as stamped, or None.

    Raises ValueError when the prefix has no stamp that can be read, OSError when it has none.
    """
    found = _first_other(os.fsencode(prefix) + b"/", _vital_lines(prefix))
    return None if found is None else os.fsdecode(found)


def vital_paths(prefix: str) -> list[str]:
    """Return the vital paths, the weightiest first. Raises ValueError and OSError, as `differing` does."""
    return [os.fsdecode(_path(line.split(b" ", 2)[2])) for line in _vital_lines(prefix)]


def unchanged(prefix: str) -> bool:
    """Tell whether every file and folder is as stamped, and none came or went; False also when it cannot be told.

    The cost is the kernel's, 2 microseconds an lstat, so it is shared by a process for every core.
    """
    try:
        with _opened(prefix) as file:
            head = file.readline()
            _, top = _head(head)
            there = sorted(name for name in os.listdir(os.fsencode(prefix)) if os.fsdecode(name) not in _UNSEEN)
            return there == top and _shared_out(os.fsencode(prefix), file.fileno(), len(head))
    except (OSError, ValueError):
        return False


def folders(prefix: str) -> set[str]:
    """Return the folders that were sealed; none where there is no stamp that can be read."""
    try:
        text = _read(prefix)
        _head(text[: text.index(b"\n") + 1])
        rows = (line.split(b" ", 2) for line in text.split(b"\n")[1:-1])
        return {os.fsdecode(_path(path)) for _, size, path in rows if size == b"-"}
    except (OSError, ValueError):
        return set()


def settle(prefix: str) -> None:
    """Give folders their sealed mtime back. Only for a prefix that was just found to hold what was sealed.

    A file that came and went leaves nothing but a newer folder; without this, every later launch would scan for it.
    """
    try:
        lines = _read(prefix).split(b"\n")
    except OSError:
        return
    base = os.fsencode(prefix) + b"/"
    for line in lines[1:-1]:
        mtime, size, path = line.split(b" ", 2)
        if size != b"-":
            continue
        try:
            status = os.lstat(base + _path(path))
            if status.st_mtime_ns != int(mtime):
                os.utime(base + _path(path), ns=(status.st_atime_ns, int(mtime)))
        except OSError:
            continue  # another user's store: such launches scan each time


def _opened(prefix: str) -> BinaryIO:
    """Open the stamp; a pipe in its place is read as empty, not waited for."""
    return open(f"{prefix}/seal/{FILE}", "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def _read(prefix: str) -> bytes:
    with _opened(prefix) as file:
        return file.read()


def _vital_lines(prefix: str) -> list[bytes]:
    with _opened(prefix) as file:
        count, _ = _head(file.readline())
        return [file.readline().rstrip(b"\n") for _ in range(count)]


def _head(line: bytes) -> tuple[int, list[bytes]]:
    """Return the number of vital lines, and the names at the top. Raises ValueError when this is no stamp's head."""
    words = line.rstrip(b"\n").split(b" ", 3)
    if b" ".join(words[:2]) not in (HEAD.encode(), _OLD) or len(words) < 3:
        raise ValueError("not a stamp")
    return int(words[2]), sorted(_path(words[3]).split(b"/")) if len(words) == 4 else []


def _first_other(base: bytes, lines: Iterable[bytes]) -> bytes | None:
    """Return the first path that is not as its line says. Raises ValueError when a line is none."""
    lstat = os.lstat
    for line in lines:
        mtime, size, path = line.split(b" ", 2)
        if b"\\" in path:
            path = _path(path)
        try:
            status = lstat(base + path)
        except OSError:
            return path
        if status.st_mtime_ns != int(mtime):
            return path
        if size != b"-" and (status.st_size != int(size) or status.st_mode & _MODE != 0o400):
            return path
    return None


def _shared_out(prefix: bytes, file: int, start: int) -> bool:
    """Compare the lines from an offset of the stamp on in several processes, this one among them.

    Each reads its own share: a process that has read all of it takes a millisecond to fork.
    """
    shares = _shares(file, start)
    children: list[int] = []
    good = True
    try:
        for share in shares[1:]:
            try:
                child = os.fork()
            except OSError:  # no more processes allowed
                good = good and _same(prefix + b"/", file, share)
                continue
            if child == 0:
                _judge_and_end(prefix, file, share)
            children.append(child)
        good = good and _same(prefix + b"/", file, shares[0])
    finally:
        ends = [os.waitpid(child, 0)[1] for child in children]
    return good and not any(ends)


def _shares(file: int, start: int) -> list[tuple[int, int]]:
    """Return ranges of whole lines, about as long each, from an offset of the stamp to its end."""
    size = os.fstat(file).st_size
    number = max(1, min(_PROCESSES, len(os.sched_getaffinity(0)), (size - start) // _SHARE))
    cuts = [start]
    for at in range(1, number):
        near = start + (size - start) * at // number
        cuts.append(near + os.pread(file, _LONGEST, near).index(b"\n") + 1)
    return list(zip(cuts, [*cuts[1:], size], strict=True))


def _same(base: bytes, file: int, share: tuple[int, int]) -> bool:
    begin, end = share
    text = os.pread(file, end - begin, begin)
    return len(text) == end - begin and _first_other(base, text.split(b"\n")[:-1]) is None


def _judge_and_end(prefix: bytes, file: int, share: tuple[int, int]) -> NoReturn:
    """End this child with 0 if its share is as stamped; whatever happens it must not go on as its parent would."""
    code = 1
    try:
        os.chdir(prefix)  # the kernel need not walk down to the prefix for every file
        code = 0 if _same(b"", file, share) else 1
    finally:
        os._exit(code)
