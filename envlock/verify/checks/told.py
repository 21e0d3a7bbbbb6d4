"""Making a check out of what was found. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.verify.check import Check, Status


def good(name: str, found: str = "", expected: str = "") -> Check:
    """Return a check that passed."""
    return Check(id=name, tier="static", status="pass", found=found, expected=expected)


def skipped(name: str, why: str) -> Check:
    """Return a check that had nothing to judge, and why."""
    return Check(id=name, tier="static", status="skip", found=why)


def bad(name: str, *, expected: str, found: str, where: str, remedy: str, status: Status = "fail") -> Check:
    """Return a check that failed, or that warns."""
    return Check(id=name, tier="static", status=status, expected=expected, found=found, where=where, remedy=remedy)


def listed(items: Sequence[str], most: int = 3) -> str:
    """Return the first few of many, and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
