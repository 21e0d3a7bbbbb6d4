"""The journal of launches: one JSON line each, appended in one write, so that two launches cannot mix their lines."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from envlock.errors import LaunchRefused


def append(file: str, entry: Mapping[str, object]) -> None:
    """Add one line to a file in a folder that is there: a mistyped one is not made.

    Raises LaunchRefused: who asks for a record does not want to launch without.
    """
    line = json.dumps(dict(entry), ensure_ascii=True, separators=(",", ":")) + "\n"
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError as error:
        folder = os.path.dirname(os.path.abspath(file))
        missing = isinstance(error, FileNotFoundError)
        raise LaunchRefused(
            f"the launch cannot be written down: {error.strerror}",
            where=file,
            hint=f"mkdir -p {folder}, or give --log another file" if missing else "give --log another file",
        ) from error


def read(file: Path) -> Sequence[dict[str, object]]:
    """Return the launches written down, oldest first; lines that are none are left out."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
