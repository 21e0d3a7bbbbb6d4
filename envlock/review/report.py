"""One comparison, judged: what every format renders. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from envlock.lock.diff import Difference, Total
from envlock.lock.document import Lock
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


def installed_grown(difference: Difference) -> tuple[int, int]:
    """Return by how many bytes the installed size grows, and for how many of the packages that differ it is unknown."""
    known = [
        after - before
        for before, after in (change.installed for change in difference.packages)
        if before is not None and after is not None
    ]
    return sum(known), len(difference.packages) - len(known)


def unsized(count: int) -> str:
    """Return `1 package of unknown size`."""
    return f"{count} package{'' if count == 1 else 's'} of unknown size"


def total(lock: Lock | None, held: Total) -> str:
    """Return an installed total for people: `24.5 GB`, `24.5 GB and 3 packages of unknown size`, `unknown`, `-`."""
    if lock is None or not lock.packages:
        return "-"
    if held.unknown == len(lock.packages):
        return "unknown"
    return amount(held.bytes) + (f" and {unsized(held.unknown)}" if held.unknown else "")


def grown(before: int | None, after: int | None) -> str:
    """Return a growth for people, `?` where one side is not known."""
    return "?" if before is None or after is None else amount(after - before, signed=True)


def amount(count: int, *, signed: bool = False) -> str:
    """Return bytes for people, `+3.1 GB` when signed."""
    sign = ("+" if count >= 0 else "-") if signed else ""
    size = abs(count)
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{sign}{size / scale:.1f} {unit}"
    return f"{sign}{size} B"
