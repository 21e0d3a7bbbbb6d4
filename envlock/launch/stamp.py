"""The stamp: what a launch compares to see that an environment is still the sealed one, without hashing anything.

`seal/stamp` is text: a first line `envlock-stamp 1 N`, then `mtime_ns size path` for every file and folder of the
generation but the seal, byte code, and the prefix itself. The first N lines are the *vital* ones (the interpreter and
the scripts, native libraries, RECORDs, `.pth` files, what lies directly in site-packages): they are compared at every
launch; the rest when a full scan is due. A folder's mtime tells that a name came or went, and has size `-`.

Standard library only: the fast path imports it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = "stamp"
HEAD = "envlock-stamp 1"
VITAL = 400  # an lstat is 2 to 5 microseconds from Python; the full scan compares the rest


def make(prefix: str | os.PathLike[str]) -> bytes:
    """Return the stamp of a finished prefix. Call it after the last file was written, before the seal."""
    return of(_walk(os.fspath(prefix)))


def of(seen: Iterable[tuple[str, int | None, int]]) -> bytes:
    """Return the stamp of what a walk saw: (path, size in bytes or None for a folder, mtime in nanoseconds)."""
    ranked: list[tuple[tuple[int, int], str, str]] = []
    rest: list[str] = []
    for path, size, mtime in seen:
        if "\n" in path:
            continue  # cannot stand in a line; the inventory of the seal covers it
        line = f"{mtime} {'-' if size is None else size} {path}\n"
        rank = _rank(path, size)
        if rank[0] < _REST:
            ranked.append((rank, path, line))
        else:
            rest.append(line)
    ranked.sort()
    text = "".join(line for _, _, line in ranked) + "".join(rest)
    return f"{HEAD} {min(VITAL, len(ranked))}\n{text}".encode("utf-8", "surrogateescape")


def _walk(root: str) -> Iterator[tuple[str, int | None, int]]:
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.name == "__pycache__" or (not folder and entry.name in ("seal", ".seal.part")):
                    continue
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                    yield path, None, status.st_mtime_ns
                else:
                    yield path, status.st_size, status.st_mtime_ns


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


def differing(prefix: str, text: str, *, full: bool) -> str | None:
    """Return the first path that is not as stamped, or None. `full` compares every line, not only the vital ones.

    Raises ValueError when the text is no stamp.
    """
    lines = text.split("\n")
    head, _, count = lines[0].rpartition(" ")
    if head != HEAD:
        raise ValueError("not a stamp")
    lines.pop()  # what follows the last newline
    lstat = os.lstat
    base = f"{prefix}/"
    for line in lines[1:] if full else lines[1 : int(count) + 1]:
        mtime, size, path = line.split(" ", 2)
        try:
            status = lstat(base + path)
        except OSError:
            return path
        if status.st_mtime_ns != int(mtime) or (size != "-" and status.st_size != int(size)):
            return path
    return None


def settle(prefix: str) -> None:
    """Give folders their sealed mtime back. Only for a prefix that was just found to hold what was sealed.

    A file that came and went leaves nothing but a newer folder; without this, every later launch would scan for it.
    """
    try:
        lines = read(prefix).split("\n")
    except OSError:
        return
    for line in lines[1:-1]:
        mtime, size, path = line.split(" ", 2)
        if size != "-":
            continue
        try:
            status = os.lstat(f"{prefix}/{path}")
            if status.st_mtime_ns != int(mtime):
                os.utime(f"{prefix}/{path}", ns=(status.st_atime_ns, int(mtime)))
        except OSError:
            continue  # another user's store: such launches scan each time


def read(prefix: str) -> str:
    """Return the text of a generation's stamp. Raises OSError."""
    with open(f"{prefix}/seal/{FILE}", encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def read_vital(prefix: str) -> str:
    """Return the head and the vital lines only, whole lines. Raises OSError."""
    with open(f"{prefix}/seal/{FILE}", encoding="utf-8", errors="surrogateescape") as file:
        first = file.readline()
        count = first.rpartition(" ")[2].strip()
        lines = [first]
        if count.isdecimal():
            lines += [file.readline() for _ in range(int(count))]
        return "".join(lines)


def vital_paths(text: str) -> list[str]:
    """Return the vital paths of a stamp, the weightiest first."""
    lines = text.split("\n")
    count = lines[0].rpartition(" ")[2]
    return [line.split(" ", 2)[2] for line in lines[1 : int(count) + 1]]
