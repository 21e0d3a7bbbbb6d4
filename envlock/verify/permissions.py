"""What may be done with the files of an environment, and by whom: the few that matter most always, all of them deep.

The seal holds no modes, since they are the installer's and the umask's; what is judged is wrong in any environment.
Effects: an lstat a file, or one `find` for all.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from envlock.environment.modes import fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_OFFENDERS = (
    *("(", "-type", "f", "-perm", "/6000", "-o", "!", "-type", "l", "-perm", "-0002"),
    *("-o", "-type", "f", "!", "-perm", "-0400", "-o", "-type", "d", "!", "-perm", "-0500", ")"),
)
"""Words for find: what `_judged` finds fault with by its mode alone."""

_OF_UV = ".lock"  # holds nothing; uv lets anybody lock it


class Fault(NamedTuple):
    """A file or folder whose permissions are wrong."""

    path: str
    """Below the prefix."""
    told: str
    grave: bool
    """It does not work, or gives its caller another user's rights; else anybody may change it."""


def vital(prefix: Path, site: Path, scripts: Iterable[str], libraries: Iterable[str]) -> Iterator[Fault]:
    """Yield what is wrong with the folders, the programs in bin, what lies directly in site-packages, and libraries.

    `scripts` are below the prefix, `libraries` below site-packages.
    """
    below = os.path.relpath(site, prefix)
    programs = {f"bin/{name}" for name in ("python", "python3", site.parent.name)}
    paths = dict.fromkeys((".", "bin", *_entries(prefix, "bin"), "lib", os.path.dirname(below), below))
    paths |= dict.fromkeys((*_entries(prefix, below), *(f"{below}/{path}" for path in libraries)))
    known = set(scripts)
    for path in paths:
        found = _judged(prefix, path, program=path in programs, script=path in known)
        if found is not None:
            yield found


def _entries(prefix: Path, folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(prefix / folder))]
    except OSError:
        return []


def everywhere(prefix: Path) -> Iterator[Fault]:
    """Yield what is wrong with any file or folder, by its mode."""
    from envlock import system

    done = system.run(
        ["find", ".", *_OFFENDERS, "-printf", r"%P\0"],
        env={"PATH": os.defpath, "LC_ALL": "C"},
        cwd=prefix,
        errors="surrogateescape",
    )
    # It also ends so when it may not look into a folder, which it has told by then.
    plain = done.returncode == 0 or "ermission denied" in done.stderr
    for path in sorted(done.stdout.split("\0")[:-1]) if plain else _walk(prefix):
        found = _judged(prefix, path or ".")
        if found is not None:
            yield found


def _walk(prefix: Path) -> Iterator[str]:
    """Yield everything: where find is not GNU's, every mode is asked for."""
    for folder, folders, names in os.walk(prefix):
        yield from (os.path.relpath(f"{folder}/{name}", prefix) for name in (*folders, *names))


def _judged(prefix: Path, path: str, *, program: bool = False, script: bool = False) -> Fault | None:
    whole = f"{prefix}/{path}"
    try:
        # an interpreter is a link to what is started
        mode = os.stat(whole).st_mode if program else os.lstat(whole).st_mode
    except OSError:
        return None  # gone, which others tell
    if stat.S_ISLNK(mode):
        return None
    if stat.S_ISREG(mode) and (told := fault(f"{stat.S_IMODE(mode):o}")):
        return Fault(path, told, grave=True)
    closed = stat.S_ISDIR(mode) and mode & 0o500 != 0o500
    if closed or not os.access(whole, os.R_OK):
        return Fault(path, "cannot be read", grave=True)
    if (program or script) and not (mode & stat.S_IXUSR and os.access(whole, os.X_OK)):
        return Fault(path, "cannot be executed", grave=program)
    if mode & stat.S_IWOTH and path != _OF_UV:
        return Fault(path, "can be changed by anybody", grave=False)
    return None
