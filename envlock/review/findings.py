"""What a difference between two locks means: findings with stable ids, worst first. Pure.

Each rule is a function from a Difference to findings, listed in RULES; each says what happened, why it matters and
what would avoid it. Sources of the rules stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from envlock.lock.coherence import twins
from envlock.lock.diff import Difference, PackageChange
from envlock.lock.document import Lock, Package

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""Worst first."""

# Sets whose members are built against each other: one that moves alone breaks the rest. torchvision#8985 (operator
# torchvision::nms does not exist), vllm#49804 (flashinfer-cubin does not match), sglang's own version assertions.
MOVE_TOGETHER = (
    ("torch", "torchvision", "torchaudio", "triton"),
    ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"),
    ("sglang", "sglang-kernel", "sgl-kernel"),
)
_BIG = 500_000_000
"""Bytes of download from which growth is worth a reviewer's eye."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One judgement."""

    id: str
    severity: Severity
    text: str
    why: str
    avoid: str = ""
    packages: tuple[str, ...] = ()


def judge(difference: Difference) -> tuple[Finding, ...]:
    """Return every finding, worst first, then by id."""
    found = [finding for rule in RULES for finding in rule(difference)]
    return tuple(sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.id, finding.text)))


def at_least(severity: Severity, floor: Severity) -> bool:
    """Tell whether a severity is as bad as `floor` or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(floor)


def _torch(difference: Difference) -> Iterator[Finding]:
    before, after = difference.torch
    if before == after:
        return
    if before is None or after is None:
        gone = after is None
        there = before or after
        version = "" if there is None else there.version
        yield Finding(
            id="torch.gone" if gone else "torch.new",
            severity="high" if gone else "medium",
            text=f"torch {version} {'goes away' if gone else 'comes in'}",
            why="everything that runs on the GPU stands on it",
            packages=("torch",),
        )
        return
    old, new = _major(before.cuda), _major(after.cuda)
    if old != new:
        yield Finding(
            id="torch.cuda-major",
            severity="critical",
            text=f"torch moves from CUDA {before.cuda or 'none'} to CUDA {after.cuda or 'none'} "
            f"({before.version} -> {after.version})",
            why="other kernels, cuDNN and NCCL, another memory footprint, another driver floor: a tuned run is tuned "
            "for the build it had",
            avoid=_pulled(difference, new),
            packages=("torch",),
        )
    elif before.cuda != after.cuda:
        yield Finding(
            id="torch.cuda-minor",
            severity="high",
            text=f"torch moves from CUDA {before.cuda} to CUDA {after.cuda} ({before.version} -> {after.version})",
            why="the bundled libraries and the PTX they carry change with it",
            packages=("torch",),
        )
    elif before.version != after.version:
        yield Finding(
            id="torch.version",
            severity="medium",
            text=f"torch {before.version} -> {after.version}, still CUDA {after.cuda}",
            why="extensions built against another torch fail with undefined symbols",
            packages=("torch",),
        )


def _pulled(difference: Difference, major: str) -> str:
    """Say what to do about a torch that moved: what asks for that CUDA, or how to pin the build."""
    asks = sorted(
        change.name
        for change in difference.packages
        if change.after is not None
        and change.name not in ("torch", "cuda-bindings", "cuda-python", "cuda-toolkit", "cuda-pathfinder")
        and not change.name.startswith("nvidia-")
        and any(
            f"cu{major}" in line or (line.startswith("cuda-") and f">={major}" in line)
            for line in change.after.requires
        )
    )
    who = f"{', '.join(asks[:4])} ask for it; keep them in a profile of their own, or " if asks else ""
    return f'{who}pin the build: [torch] version and cuda, from index "pytorch-cuXXX"'


def _asks_for(line: str, major: str) -> bool:
    return f"cu{major}" in line or (line.startswith("cuda-") and f">={major}" in line)


def _major(cuda: str | None) -> str:
    return (cuda or "none").partition(".")[0]


def _driver_floor(difference: Difference) -> Iterator[Finding]:
    before, after = difference.torch
    if before is None or after is None or before.driver_floor == after.driver_floor:
        return
    raised = _newer(after.driver_floor, before.driver_floor)
    yield Finding(
        id="driver.floor",
        severity="high" if raised else "info",
        text=f"the driver floor {'rises' if raised else 'falls'} from {before.driver_floor or 'none'} "
        f"to {after.driver_floor or 'none'}",
        why="on a host with an older driver CUDA does not start at all" if raised else "older hosts can run it again",
        avoid="upgrade the hosts' drivers first, or stay on the earlier CUDA" if raised else "",
    )


def _newer(one: str | None, other: str | None) -> bool:
    def numbers(version: str | None) -> list[int]:
        return [int(part) for part in (version or "0").split(".")]

    return numbers(one) > numbers(other)


def _coverage(difference: Difference) -> Iterator[Finding]:
    for change in difference.packages:
        after = change.after.device_code if change.after is not None else None
        before = change.before.device_code if change.before is not None else None
        if after is None:
            continue
        for capability, now in after.coverage.items():
            was = None if before is None else before.coverage.get(capability)
            runs = now.sass + now.ptx
            total = runs + now.none
            if total and not runs:
                yield Finding(
                    id="kernels.none",
                    severity="high" if was is None or was.sass + was.ptx else "medium",
                    text=f"{change.name} has no code at all for compute capability {capability} ({total} containers)",
                    why="its first kernel fails: no kernel image is available for execution on the device",
                    avoid="choose a version built for this GPU, or accept it by name in [kernels] accept-missing",
                    packages=(change.name,),
                )
            elif was is not None and now.none * (was.sass + was.ptx + was.none) > was.none * total:
                yield Finding(
                    id="kernels.lost",
                    severity="high",
                    text=f"{change.name} loses code for {capability}: {now.none} of {total} containers have none, "
                    f"before {was.none} of {was.sass + was.ptx + was.none}",
                    why="an operator that ran before may not run now",
                    packages=(change.name,),
                )
            if total and not now.sass and now.ptx:
                yield Finding(
                    id="kernels.ptx-only",
                    severity="medium",
                    text=f"{change.name} runs on {capability} by just-in-time compilation alone",
                    why="the first start compiles for minutes, and needs a driver as new as the toolkit",
                    packages=(change.name,),
                )
        fresh = [path for path in after.uncovered if before is None or path not in before.uncovered]
        if fresh and any(c.sass + c.ptx for c in after.coverage.values()):
            yield Finding(
                id="kernels.uncovered-library",
                severity="medium",
                text=f"{change.name}: {', '.join(fresh[:4])} cannot run on {', '.join(after.coverage)}",
                why="the package loads, and fails when it reaches these libraries",
                avoid="accept it by name in [kernels] accept-missing, with how the launch avoids it",
                packages=(change.name,),
            )


def _twins(difference: Difference) -> Iterator[Finding]:
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


def _together(difference: Difference) -> Iterator[Finding]:
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


def _sources(difference: Difference) -> Iterator[Finding]:
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


def _downgrades(difference: Difference) -> Iterator[Finding]:
    for change in difference.packages:
        if _version_moved(change) and change.before is not None and change.after is not None:
            try:
                down = Version(change.after.version) < Version(change.before.version)
            except InvalidVersion:
                continue
            if down and change.name != "torch":
                yield Finding(
                    id="version.downgrade",
                    severity="low",
                    text=f"{change.name} goes back from {change.before.version} to {change.after.version}",
                    why="something new holds it down",
                    packages=(change.name,),
                )


def _sizes(difference: Difference) -> Iterator[Finding]:
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


def _gigabytes(count: int) -> str:
    return f"{abs(count) / 1e9:.1f} GB"


_INPUTS: Mapping[str, tuple[Severity, str]] = {
    "python": ("high", "every native wheel is another file, and byte code is compiled again"),
    "platform.glibc": ("medium", "hosts with an older glibc can no longer install it, or newer wheels become possible"),
    "platform.machine": ("critical", "every native wheel is another file"),
    "gpu.compute-capability": ("high", "coverage was judged for another GPU"),
    "gpu.count": ("medium", "a launch needs another number of GPUs"),
    "gpu.min-driver": ("high", "hosts with an older driver are refused"),
    "gpu.min-free-memory": ("medium", "launches are refused at another level of free memory"),
    "gpu.exclusive": ("medium", "launches beside other processes are judged otherwise"),
    "prerelease": ("medium", "pre-releases may come in that nobody asked for by version"),
}


def _inputs(difference: Difference) -> Iterator[Finding]:
    for change in difference.inputs:
        if change.key in ("requirements", "torch.version", "torch.cuda", "torch.index"):
            continue
        severity, why = _INPUTS.get(change.key, ("", ""))
        if change.key.startswith("env.set."):
            severity, why = "medium", "the same code runs with other settings"
        elif change.key.startswith("env."):
            severity, why = "medium", "other variables cross from the caller"
        elif change.key.startswith("kernels."):
            severity, why = "medium", "what must run on the GPU is judged otherwise"
        if severity:
            yield Finding(
                id=f"input.{change.key.split('.')[0]}",
                severity=severity,  # type: ignore[arg-type]
                text=f"{change.key}: {_word(change.before, change.key)} -> {_word(change.after, change.key)}",
                why=why,
            )


def _word(value: object, key: str) -> str:
    if key == "gpu.min-free-memory" and isinstance(value, int) and value:
        return f"{value / 2**30:g} GiB"
    if value in (None, "", [], {}):
        return "nothing"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _licences(difference: Difference) -> Iterator[Finding]:
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


RULES: tuple[Callable[[Difference], Iterator[Finding]], ...] = (
    _torch,
    _driver_floor,
    _coverage,
    _twins,
    _together,
    _sources,
    _downgrades,
    _sizes,
    _inputs,
    _licences,
)
