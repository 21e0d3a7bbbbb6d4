"""A comparison as a review comment: the risks in a table, everything else folded away."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.review.formats.as_text import versions
from envlock.review.report import Comparison, amount, counts, grown, total

MARKER = "<!-- envlock diff -->"
"""First line of the comment: CI finds its own comment by it and updates that one."""
_SIGNS = {"critical": "🔴", "high": "🟠", "medium": "🟡", "low": "🔵", "info": "⚪"}


def render(comparisons: Sequence[Comparison]) -> str:
    """Return one comment for all comparisons."""
    parts = [MARKER]
    for comparison in comparisons:
        parts.append(_one(comparison))
    if not comparisons:
        parts.append("**envlock:** no lock differs.")
    return "\n\n".join(parts) + "\n"


def _one(comparison: Comparison) -> str:
    difference = comparison.difference
    lines = [f"### `{comparison.before}` → `{comparison.after}`: {_plain(comparison.headline)}", ""]
    before, after = difference.torch
    if before or after or difference.packages:
        lines.append("| | before | after |\n|---|---|---|")
        rows = (
            ("torch", before and before.version, after and after.version),
            ("CUDA", before and before.cuda, after and after.cuda),
            ("driver floor", before and before.driver_floor, after and after.driver_floor),
            ("download", _total(comparison, 0), _total(comparison, 1)),
            ("installed", *map(total, (difference.before, difference.after), difference.installed)),
        )
        for name, was, now in rows:
            if not was and not now:
                continue
            shown = f"**{now or '-'}**" if was != now else (now or "-")
            lines.append(f"| {name} | {was or '-'} | {shown} |")
        lines.append("")
    serious = [finding for finding in comparison.findings if finding.severity in ("critical", "high", "medium")]
    for finding in serious:
        avoid = f" _Avoid:_ {_plain(finding.avoid)}." if finding.avoid else ""
        lines.append(f"- {_SIGNS[finding.severity]} **{_plain(finding.text)}**: {_plain(finding.why)}.{avoid}")
    if serious:
        lines.append("")
    minor = [finding for finding in comparison.findings if finding not in serious]
    if minor:
        lines.append(f"<details><summary>{len(minor)} minor findings</summary>\n")
        lines += [f"- {_SIGNS[finding.severity]} {_plain(finding.text)}" for finding in minor]
        lines.append("\n</details>\n")
    if difference.packages:
        lines.append(f"<details><summary>{counts(difference)}</summary>\n")
        lines.append("| package | change | version | download | installed |\n|---|---|---|---:|---:|")
        for change in difference.packages:
            size = amount(change.sizes[1] - change.sizes[0], signed=True)
            lines.append(
                f"| {_plain(change.name)} | {change.change} | {_plain(versions(change))} | {size} "
                f"| {grown(*change.installed)} |"
            )
        lines.append("\n</details>")
    return "\n".join(lines).rstrip()


def _total(comparison: Comparison, side: int) -> str:
    lock = (comparison.difference.before, comparison.difference.after)[side]
    if lock is None:
        return "-"
    return amount(sum(artifact.size or 0 for package in lock.packages for artifact in package.artifacts))


def _plain(text: str) -> str:
    """Return text that cannot break out of a table cell or begin markup."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'").replace("*", "\\*")
