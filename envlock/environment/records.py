"""RECORD files (PyPA "Recording installed projects"): which distribution installed which file, and its sha256. Pure."""

from __future__ import annotations

import binascii
import csv
from typing import NamedTuple


class Recorded(NamedTuple):
    """One line of a RECORD."""

    path: str
    """As written: relative to site-packages, `../../../bin/torchrun` for a script."""
    sha256: str
    """Hex; empty where the line gives none (RECORD itself, and what its installer generated)."""
    size: int | None


def read_record(text: str) -> list[Recorded]:
    """Return the lines of a RECORD. Lines that are no record are left out: integrity is judged by what is there."""
    # A large stack has some 80,000 lines: the csv module is only asked where a quote makes it necessary.
    quoted = '"' in text
    rows = csv.reader(text.splitlines()) if quoted else (line.rsplit(",", 2) for line in text.splitlines())
    return [
        Recorded(row[0], _hex(row[1]), int(row[2]) if row[2].isdecimal() else None)
        for row in rows
        if len(row) == 3 and row[0]
    ]


def _hex(digest: str) -> str:
    if not digest.startswith("sha256="):
        return ""
    encoded = digest[7:].replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4)).hex()
    except binascii.Error:
        return ""
