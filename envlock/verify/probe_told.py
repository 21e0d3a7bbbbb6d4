"""Making a check out of what a probe told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlock.verify.check import Check, Status


def judged(name: str, status: Status, **words: str) -> Check:
    """Return a check of the probe tier."""
    return Check(id=name, tier="probe", status=status, **words)


def untold(name: str, answer: Mapping[str, Any], expected: str) -> Check:
    """Return the failure of a probe that should have told something; what is not known is never fine."""
    return judged(name, "fail", expected=expected, found=str(answer["found"]), remedy="verify --tier static tells more")
