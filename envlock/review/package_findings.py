"""Findings about packages: twins, families, where they come from, sizes, licences. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from envlock.lock.diff import Difference, PackageChange
from envlock.lock.document import Lock, Package
from envlock.lock.twins import twins
from envlock.review.finding import Finding

# Sets whose members are built against each other: one that moves alone breaks the rest. torchvision#8985 (operator
# torchvision::nms does not exist), vllm#49804 (flashinfer-cubin does not match), sglang's own version assertions.
MOVE_TOGETHER = (
    ("torch", "torchvision", "torchaudio", "triton"),
    ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"),
    ("sglang", "sglang-kernel", "sgl-kernel"),
)
_BIG = 500_000_000
"""Bytes of download from which growth is worth a reviewer's eye."""
_BIG_INSTALLED = 1_000_000_000
"""The same of disk."""


def cuda_twins(difference: Difference) -> Iterator[Finding]:
    """Tell libraries that are there for two CUDA majors now."""
    if difference.after is None:
        return
    before = set() if difference.before is None else set(twins(difference.before.packages))
    for group in twins(difference.after.packages):
        if group not in before:
            yield Finding(
                id="cuda.twins",
                severity="critical",
                text=f"{' and '.join(group)} are one library for two CUDA majors",
                why="they install the same files; whichever is installed last wins (pytorch/pytorch#186591)",
                avoid="exclude the one that does not belong to this torch",
                packages=group,
            )


def together(difference: Difference) -> Iterator[Finding]:
    """Tell families whose members did not move together."""
    changed = {change.name: change for change in difference.packages}
    for family in MOVE_TOGETHER:
        held = [name for name in family if _has(difference.before, name) and _has(difference.after, name)]
        moved = [name for name in held if name in changed and _version_moved(changed[name])]
        stayed = [name for name in held if name not in moved and not _pinned_to(family[0], name, difference.after)]
        if moved and stayed and family[0] in moved:
            yield Finding(
                id="family.split",
                severity="high",
                text=f"{', '.join(moved)} moved, {', '.join(stayed)} did not",
                why="they are built against each other; a mixed set fails on import or, worse, later",
                avoid=f"let them move together: envlock lock -P {' -P '.join(stayed)}",
                packages=(*moved, *stayed),
            )


def _pinned_to(lead: str, name: str, lock: Lock | None) -> bool:
    """Tell whether one of the two asks for the other by exact version: then the resolver kept them in step."""
    pairs = ((lead, name), (name, lead))
    return lock is not None and any(
        line.startswith(f"{wanted}==") for asking, wanted in pairs for line in lock.by_name[asking].requires
    )


def _has(lock: Lock | None, name: str) -> bool:
    return lock is not None and lock.package(name) is not None


def _version_moved(change: PackageChange) -> bool:
    return change.before is not None and change.after is not None and change.before.version != change.after.version


def sources(difference: Difference) -> Iterator[Finding]:
    """Tell changes of where a package comes from."""
    for change in difference.packages:
        before, after = change.before, change.after
        if before is None or after is None:
            continue
        if before.direct is None and after.direct is not None:
            yield Finding(
                id="source.direct",
                severity="high",
                text=f"{change.name} comes from {after.direct.location} now, no longer from index {before.index}",
                why="no index vouches for it any more",
                packages=(change.name,),
            )
        elif before.index != after.index and before.direct is None:
            yield Finding(
                id="source.index",
                severity="high",
                text=f"{change.name} comes from index {after.index} now, before from {before.index}",
                why="another index may serve another build of the same version",
                packages=(change.name,),
            )
        if before.version == after.version and before.index == after.index and before.artifacts != after.artifacts:
            yield Finding(
                id="source.same-version-other-bytes",
                severity="critical",
                text=f"{change.name} {after.version}: the same version, other bytes",
                why="somebody uploaded the file again (pytorch/pytorch#195141), or an index was tampered with",
                avoid="find out who changed it before this is merged",
                packages=(change.name,),
            )
        if _is_wheel(before) and not _is_wheel(after) and after.direct is None:
            yield Finding(
                id="source.became-build",
                severity="high",
                text=f"{change.name} {after.version} has no wheel any more: it will be built where it is installed",
                why="a build depends on the compiler, CUDA and torch of that moment, and takes its time",
                packages=(change.name,),
            )


def _is_wheel(package: Package) -> bool:
    return any(artifact.is_wheel for artifact in package.artifacts)


def downgrades(difference: Difference) -> Iterator[Finding]:
    """Tell packages that go back."""
    for change in difference.packages:
        if change.before is None or change.after is None or change.name == "torch":
            continue
        if _older(change.after.version, change.before.version):
            yield Finding(
                id="version.downgrade",
                severity="low",
                text=f"{change.name} goes back from {change.before.version} to {change.after.version}",
                why="something new holds it down",
                packages=(change.name,),
            )


def _older(version: str, other: str) -> bool:
    """Tell whether a version is before another (PEP 440); what is no version is before nothing."""
    mine, theirs = version.split("."), other.split(".")
    if version.isascii() and other.isascii() and all(part.isdecimal() for part in (*mine, *theirs)):
        most = max(len(mine), len(theirs))
        return [int(part) for part in mine] + [0] * (most - len(mine)) < [int(part) for part in theirs] + [0] * (
            most - len(theirs)
        )
    from packaging.version import InvalidVersion, Version  # late: plain releases are compared without it

    try:
        return Version(version) < Version(other)
    except InvalidVersion:
        return False


def sizes(difference: Difference) -> Iterator[Finding]:
    """Tell downloads that grow or shrink much."""
    grown = sum(after - before for before, after in (change.sizes for change in difference.packages))
    if abs(grown) < _BIG:
        return
    biggest = sorted(difference.packages, key=lambda change: change.sizes[0] - change.sizes[1])[:3]
    names = ", ".join(
        f"{change.name} +{_gigabytes(change.sizes[1] - change.sizes[0])}"
        for change in biggest
        if change.sizes[1] > change.sizes[0]
    )
    yield Finding(
        id="size.download",
        severity="medium" if grown > 0 else "info",
        text=f"the download {'grows' if grown > 0 else 'shrinks'} by {_gigabytes(grown)}"
        + (f" ({names})" if names and grown > 0 else ""),
        why="every host fetches it once",
    )


def installed_sizes(difference: Difference) -> Iterator[Finding]:
    """Tell environments that grow or shrink much on disk, as far as both locks know the packages that differ."""
    known = [
        (after - before, change.name)
        for change in difference.packages
        for before, after in (change.installed,)
        if before is not None and after is not None
    ]
    grown = sum(size for size, _ in known)
    if abs(grown) < _BIG_INSTALLED:
        return
    unknown = len(difference.packages) - len(known)
    names = ", ".join(f"{name} +{_gigabytes(size)}" for size, name in sorted(known, reverse=True)[:3] if size > 0)
    yield Finding(
        id="size.installed",
        severity="medium" if grown > 0 else "info",
        text=f"installed, it {'grows' if grown > 0 else 'shrinks'} by {_gigabytes(grown)}"
        + (f" ({names})" if names and grown > 0 else "")
        + (f", not counting {unknown} of unknown size" if unknown else ""),
        why="every store that installs it needs that much more disk, once however many environments link it"
        if grown > 0
        else "a store that drops the old one gets that much disk back",
    )


def yanked(difference: Difference) -> Iterator[Finding]:
    """Tell packages whose locked file its index has withdrawn: newly so, or newly chosen (PEP 592)."""
    for change in difference.packages:
        before, after = change.before, change.after
        if after is None or after.yanked is None:
            continue
        same = before is not None and before.artifacts == after.artifacts
        if same and before is not None and before.yanked is not None:
            continue
        yield Finding(
            id="source.yanked",
            severity="medium",
            text=f"{change.name} {after.version} is {'now ' if same else ''}yanked"
            + (f": {after.yanked}" if after.yanked else ""),
            why="its authors withdrew it, for a broken or a dangerous release; nothing new should begin with it",
            avoid=f"envlock lock -P {change.name}, without the == that holds it",
            packages=(change.name,),
        )


def _gigabytes(count: int) -> str:
    return f"{abs(count) / 1e9:.1f} GB"


def licences(difference: Difference) -> Iterator[Finding]:
    """Tell licences that change."""
    for change in difference.packages:
        if change.before is None or change.after is None or change.before.license == change.after.license:
            continue
        if change.before.license and change.after.license:
            yield Finding(
                id="licence.changed",
                severity="low",
                text=f"{change.name}: licence {change.before.license} -> {change.after.license}",
                why="its terms are not what was agreed to",
                packages=(change.name,),
            )
