"""Permissions that no installed file has: set-user-ID, set-group-ID, and nothing to read for its owner.

A chmod changes neither size nor time. Installed files are hard links into uv's cache, where it is the same file: unless
it is set right there, every later environment has it, too.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_WRONG = stat.S_ISUID | stat.S_ISGID | stat.S_IRUSR
_RIGHT = stat.S_IRUSR
"""Of these three bits; environment/stamp.py compares the same."""


_USUAL = frozenset({"644", "755", "664", "775", "600", "700", "640", "750", "444", "555"})  # nearly every file


def fault(mode: str) -> str:
    """Return what is wrong with a file of this mode (octal, as find tells it), or nothing."""
    if mode in _USUAL:
        return ""
    bits = int(mode, 8)
    if bits & _WRONG == _RIGHT:
        return ""
    if bits & stat.S_ISUID:
        return "runs with the rights of its user (set-user-ID)"
    return "runs with the rights of its group (set-group-ID)" if bits & stat.S_ISGID else "cannot be read"


def restore(root: str, files: Iterable[tuple[str, str]]) -> None:
    """Set right what is wrong with files, (path, mode) below `root`; what belongs to another user is left as it is."""
    for path, mode in files:
        if fault(mode):
            try:
                os.chmod(f"{root}/{path}", int(mode, 8) & ~_WRONG | _RIGHT)
            except OSError:
                continue
