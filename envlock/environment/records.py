"""RECORD files (PyPA "Recording installed projects"): which distribution installed which file, and its sha256. Pure."""

from __future__ import annotations

import base64
import binascii
import csv
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One line of a RECORD."""

    path: str
    """As written: relative to site-packages, `../../../bin/torchrun` for a script."""
    sha256: str
    """Hex; empty where the line gives none (RECORD itself, and what its installer generated)."""
    size: int | None


def read_record(text: str) -> list[Recorded]:
    """Return the lines of a RECORD. Lines that are no record are left out: integrity is judged by what is there."""
    rows = []
    for row in csv.reader(text.splitlines()):
        if not row or not row[0]:
            continue
        digest = row[1] if len(row) > 1 else ""
        size = row[2] if len(row) > 2 else ""
        rows.append(
            Recorded(
                path=row[0],
                sha256=_hex(digest.removeprefix("sha256=")) if digest.startswith("sha256=") else "",
                size=int(size) if size.isdigit() else None,
            )
        )
    return rows


def _hex(encoded: str) -> str:
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
    except (binascii.Error, ValueError):
        return ""
