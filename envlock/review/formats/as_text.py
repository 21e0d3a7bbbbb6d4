"""A comparison for a terminal: what it means first, the packages after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envlock.lock.diff import PackageChange
from envlock.review.report import Comparison, amount, counts, installed_grown, total, unsized

_COLOURS = {"critical": "red", "high": "red", "medium": "yellow", "low": "cyan", "info": "bright_black"}
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}

Paint = Callable[[str, str], str]
"""Colours a text; the identity where there is no terminal."""


def render(comparisons: Sequence[Comparison], paint: Paint, *, most: int = 30) -> str:
    """Return comparisons one below the other; at most `most` packages each, the ones that changed build first."""
    return "\n\n".join(_one(comparison, paint, most) for comparison in comparisons)


def _one(comparison: Comparison, paint: Paint, most: int) -> str:
    difference = comparison.difference
    lines = [paint(f"{comparison.before} -> {comparison.after}: {comparison.headline}", "bold")]
    for finding in comparison.findings:
        lines.append(f"  {paint(f'{finding.severity:<8}', _COLOURS[finding.severity])} {finding.text}")
        lines.append(f"           {finding.why}")
        if finding.avoid:
            lines.append(f"           {paint('avoid:', 'cyan')} {finding.avoid}")
    if not difference.packages:
        return "\n".join(lines)
    grown = sum(change.sizes[1] - change.sizes[0] for change in difference.packages)
    lines.append(f"  {counts(difference)}; download {amount(grown, signed=True)}, installed {_installed(comparison)}")
    shown = sorted(difference.packages, key=lambda change: (change.change != "changed", change.name))[:most]
    width = max(len(change.name) for change in shown)
    for change in shown:
        sign, colour = _SIGNS[change.change]
        lines.append(f"  {paint(sign, colour)} {change.name:<{width}}  {versions(change)}")
    left = len(difference.packages) - len(shown)
    if left > 0:
        lines.append(f"  ... and {left} more (--all, or --format html)")
    return "\n".join(lines)


def _installed(comparison: Comparison) -> str:
    difference = comparison.difference
    growth, unknown = installed_grown(difference)
    if unknown == len(difference.packages):
        return "unknown (envlock lock --inspect)"
    rest = f" and {unsized(unknown)}" if unknown else ""
    totals = [
        total(lock, held)
        for lock, held in zip((difference.before, difference.after), difference.installed, strict=True)
    ]
    return f"{amount(growth, signed=True)}{rest} ({' -> '.join(totals)})"


def versions(change: PackageChange) -> str:
    """Return `1.0 -> 2.0`, or the one version there is, with what else changed."""
    before, after = change.before, change.after
    if before is None or after is None:
        there = before or after
        return "" if there is None else there.version
    if before.version != after.version:
        return f"{before.version} -> {after.version}"
    what = [
        word
        for word, differs in (
            ("index", before.index != after.index),
            ("file", before.artifacts != after.artifacts),
            ("requirements", before.requires != after.requires),
            ("device code", before.device_code != after.device_code),
            ("source", before.direct != after.direct),
            ("yanked", before.yanked != after.yanked),
        )
        if differs
    ]
    return f"{after.version} ({', '.join(what) or 'metadata'})"
