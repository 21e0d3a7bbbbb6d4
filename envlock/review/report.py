"""One comparison, judged: what every format renders. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from envlock.lock.diff import Difference
from envlock.review.finding import Finding, Severity, at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two locks with their names and what their difference means."""

    before: str
    """How the left side is called: `train-cu128`, `main:locks/x.toml`."""
    after: str
    difference: Difference
    findings: tuple[Finding, ...]

    @property
    def headline(self) -> str:
        """The one line a reviewer must not miss."""
        if self.difference.before is None:
            return "a new profile"
        if self.difference.after is None:
            return "the profile goes away"
        if self.difference.empty:
            return "no difference"
        first = self.findings[0] if self.findings else None
        if first is not None and at_least(first.severity, "high"):
            return first.text
        return counts(self.difference)

    def worst(self) -> Severity | None:
        """Return the worst severity, or None without findings."""
        return self.findings[0].severity if self.findings else None


def counts(difference: Difference) -> str:
    """Return `12 packages changed, 3 added, 1 removed`."""
    kinds = [change.change for change in difference.packages]
    words = [f"{kinds.count(kind)} {kind}" for kind in ("changed", "added", "removed") if kind in kinds]
    return ", ".join(words) if words else "no package differs"


def amount(count: int, *, signed: bool = False) -> str:
    """Return bytes for people, `+3.1 GB` when signed."""
    sign = ("+" if count >= 0 else "-") if signed else ""
    size = abs(count)
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{sign}{size / scale:.1f} {unit}"
    return f"{sign}{size} B"
