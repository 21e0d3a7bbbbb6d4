"""What a difference between two locks means: findings with stable ids, worst first. Pure.

Each rule is a function from a Difference to findings, listed in RULES; each says what happened, why it matters and
what would avoid it. Sources of the rules stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envlock.lock.diff import Difference
from envlock.review import package_findings, stack_findings
from envlock.review.finding import SEVERITIES, Finding

RULES: tuple[Callable[[Difference], Iterator[Finding]], ...] = (
    stack_findings.torch,
    stack_findings.driver_floor,
    stack_findings.coverage,
    package_findings.cuda_twins,
    package_findings.together,
    package_findings.sources,
    package_findings.downgrades,
    package_findings.yanked,
    package_findings.sizes,
    package_findings.installed_sizes,
    stack_findings.inputs,
    package_findings.licences,
)


def judge(difference: Difference) -> tuple[Finding, ...]:
    """Return every finding, worst first, then by id."""
    found = [finding for rule in RULES for finding in rule(difference)]
    return tuple(sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.id, finding.text)))
