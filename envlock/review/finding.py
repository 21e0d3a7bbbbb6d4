"""One judgement of a difference, and how bad it is. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""Worst first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One judgement."""

    id: str
    severity: Severity
    text: str
    why: str
    avoid: str = ""
    packages: tuple[str, ...] = ()


def at_least(severity: Severity, floor: Severity) -> bool:
    """Tell whether a severity is as bad as `floor` or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(floor)
