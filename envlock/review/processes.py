"""Which live processes use a folder: /proc tells, of every process this user may see, containers included."""

from __future__ import annotations

import os
from pathlib import Path


def users_of(prefixes: list[Path]) -> dict[str, str]:
    """Return prefix name -> `pid 123 (python)` for those that a process runs from, maps or stands in."""
    wanted = {f"{prefix}/": prefix.name for prefix in prefixes}
    found: dict[str, str] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            for path in _paths(entry):
                for start, name in wanted.items():
                    if path.startswith(start) and name not in found:
                        found[name] = f"in use by pid {entry} ({_command(entry)})"
    return found


def _paths(pid: str) -> list[str]:
    paths = []
    for name in ("exe", "cwd"):
        try:
            paths.append(os.readlink(f"/proc/{pid}/{name}"))
        except OSError:
            continue
    try:
        # A venv's python is a link to its base: only the words it was started by tell which venv it is.
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            paths += [os.fsdecode(word) for word in file.read().split(b"\0")[:2] if word.startswith(b"/")]
        with open(f"/proc/{pid}/environ", "rb") as file:
            for pair in file.read().split(b"\0"):
                if pair.startswith(b"ENVLOCK_PREFIX="):
                    paths.append(os.fsdecode(pair[15:]) + "/")
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths += {
                line.rstrip("\n").partition("/")[2] and "/" + line.rstrip("\n").partition("/")[2] for line in maps
            }
    except OSError:
        pass
    return paths


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"
