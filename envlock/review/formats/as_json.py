"""A comparison as the stable keys that `diff --json` promises (docs/review.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from envlock.lock.diff import PackageChange, Total, download_size
from envlock.lock.document import Lock, TorchBuild
from envlock.review.report import Comparison


def render(comparisons: Sequence[Comparison]) -> str:
    """Return one object for one comparison, `{"diffs": [...]}` for several."""
    rendered = [as_dict(comparison) for comparison in comparisons]
    return json.dumps(rendered[0] if len(rendered) == 1 else {"diffs": rendered}, indent=1, ensure_ascii=False)


def as_dict(comparison: Comparison) -> dict[str, object]:
    """Return one comparison."""
    before, after = comparison.difference.torch
    installed = comparison.difference.installed
    return {
        "from": comparison.before,
        "to": comparison.after,
        "headline": comparison.headline,
        "packages": [_package(change) for change in comparison.difference.packages],
        "download": {"from": _download(comparison.difference.before), "to": _download(comparison.difference.after)},
        "installed": {"from": _total(installed[0]), "to": _total(installed[1])},
        "torch": {"from": _torch(before), "to": _torch(after)},
        "inputs": [
            {"key": change.key, "from": change.before, "to": change.after} for change in comparison.difference.inputs
        ],
        "findings": [
            {
                "id": finding.id,
                "severity": finding.severity,
                "text": finding.text,
                "why": finding.why,
                "avoid": finding.avoid,
                "packages": list(finding.packages),
            }
            for finding in comparison.findings
        ],
    }


def _package(change: PackageChange) -> dict[str, object]:
    return {
        "name": change.name,
        "change": change.change,
        "from": None if change.before is None else change.before.version,
        "to": None if change.after is None else change.after.version,
        "size_from": change.sizes[0],
        "size_to": change.sizes[1],
        "installed_from": change.installed[0],
        "installed_to": change.installed[1],
    }


def _download(lock: Lock | None) -> int:
    return 0 if lock is None else sum(download_size(package) for package in lock.packages)


def _total(total: Total) -> dict[str, int]:
    return {"bytes": total.bytes, "unknown_packages": total.unknown}


def _torch(build: TorchBuild | None) -> dict[str, object] | None:
    if build is None:
        return None
    return {
        "version": build.version,
        "cuda": build.cuda,
        "runtime": build.runtime,
        "driver_floor": build.driver_floor,
    }
