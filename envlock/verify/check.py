"""One named judgement. Every check of every tier is this value; rendering and exit codes follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "warn", "fail", "skip"]
Tier = Literal["static", "host", "probe"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What was judged, what was expected and found, where, and what to do."""

    id: str
    """Stable: `torch.cuda-build`, `kernels.coverage`, `driver.floor`."""
    tier: Tier
    status: Status
    expected: str = ""
    found: str = ""
    where: str = ""
    remedy: str = ""
    """The next command to type, or the edit to make; empty when it passed."""

    def as_dict(self) -> dict[str, str]:
        """Return the keys that `verify --json` promises."""
        return {
            "id": self.id,
            "tier": self.tier,
            "status": self.status,
            "expected": self.expected,
            "found": self.found,
            "where": self.where,
            "remedy": self.remedy,
        }


def holds(checks: Iterable[Check]) -> bool:
    """Tell whether no check failed."""
    return all(check.status != "fail" for check in checks)
