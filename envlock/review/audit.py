"""What an audit found of one lock, and whether it may be called clean. Pure.

Three things are told apart everywhere: something is wrong; nothing is wrong, and everything was asked; not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlock.lock.document import Artifact, Package
from envlock.resolve.advisories import Vulnerability
from envlock.resolve.listing import Listed
from envlock.review.finding import Finding, Severity, at_least

CLEAN, FOUND, NOT_AUDITED = 0, 1, 3
"""Exit codes of `envlock audit`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unasked:
    """Something that could not be asked, and why: then nothing is known of these packages."""

    what: str
    """`advisories`, or `index NAME`."""
    reason: str
    packages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """One lock, audited as far as it could be."""

    name: str
    packages: int
    vulnerabilities: tuple[Vulnerability, ...]
    files: tuple[Finding, ...]
    """What the indexes say of the locked files: yanked, gone, other bytes."""
    unasked: tuple[Unasked, ...]
    notes: tuple[str, ...] = ()
    """What there is nothing to ask for: a package that comes from no index."""

    @property
    def complete(self) -> bool:
        """Tell whether everything was asked."""
        return not self.unasked

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found, as findings."""
        return (*map(_vulnerable, self.vulnerabilities), *self.files)


def _vulnerable(one: Vulnerability) -> Finding:
    fixed = f"mended in {', '.join(one.fixed)}" if one.fixed else "not mended in any version yet"
    other = f" ({', '.join(one.aliases)})" if one.aliases else ""
    return Finding(
        id="audit.vulnerability",
        severity="high",
        text=f"{one.package} {one.version}: {one.id}{other}: {one.summary or 'no summary'}",
        why=fixed,
        avoid=f"envlock lock -P {one.package}, once the profile allows {one.fixed[-1]}" if one.fixed else "",
        packages=(one.package,),
    )


def judge_file(package: Package, artifact: Artifact, listed: Listed | None) -> Finding | None:
    """Hold one locked file against what its index says of it now; None when there is nothing to say."""
    name = f"{package.name} {package.version}"
    if listed is None:
        return Finding(
            id="audit.gone",
            severity="high",
            text=f"{name}: index {package.index} no longer lists {artifact.file}",
            why="a host that does not have it yet cannot get it",
            avoid=f"map index {package.index} to a mirror that kept it, or envlock lock -P {package.name}",
            packages=(package.name,),
        )
    if listed.sha256 and listed.sha256 != artifact.sha256:
        return Finding(
            id="audit.other-bytes",
            severity="critical",
            text=f"{name}: index {package.index} lists {artifact.file} with another sha256 than the lock",
            why="somebody uploaded it again, or the index was tampered with; envlock will not install it",
            avoid="find out who changed it before locking again",
            packages=(package.name,),
        )
    if listed.yanked is not None:
        return Finding(
            id="audit.yanked",
            severity="medium",
            text=f"{name}: {artifact.file} is yanked" + (f": {listed.yanked}" if listed.yanked else ""),
            why="its authors withdrew it, for a broken or a dangerous release",
            avoid=f"envlock lock -P {package.name}, without the == that holds it",
            packages=(package.name,),
        )
    return None


def exit_code(audits: tuple[Audit, ...], fail_on: Severity) -> int:
    """Return 1 when something that bad was found, else 3 when not everything was asked, else 0."""
    if any(at_least(finding.severity, fail_on) for audit in audits for finding in audit.findings):
        return FOUND
    return CLEAN if all(audit.complete for audit in audits) else NOT_AUDITED
