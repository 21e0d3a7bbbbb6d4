"""Findings about the stack itself: torch, its CUDA, the driver, device code, the profile's own wishes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch

from envlock.lock.cuda import OPAQUE_DEVICE_CODE
from envlock.lock.diff import Difference
from envlock.lock.document import Lock
from envlock.review.finding import Finding, Severity


def torch(difference: Difference) -> Iterator[Finding]:
    """Tell when torch's build moves, comes or goes."""
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


def driver_floor(difference: Difference) -> Iterator[Finding]:
    """Tell when the driver floor moves."""
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


def coverage(difference: Difference) -> Iterator[Finding]:
    """Tell device code lost or missing for the declared GPU."""
    for change in difference.packages:
        after = change.after.device_code if change.after is not None else None
        before = change.before.device_code if change.before is not None else None
        if after is None or change.name in OPAQUE_DEVICE_CODE:
            continue
        accepted = _accepted(difference.after)
        if after.uncovered and all(any(fnmatch(path, pattern) for pattern in accepted) for path in after.uncovered):
            if before is None or before.uncovered != after.uncovered:
                yield Finding(
                    id="kernels.accepted",
                    severity="info",
                    text=f"{change.name}: {', '.join(after.uncovered[:3])} cannot run there, which the profile accepts",
                    why="it says why in [kernels] accept-missing",
                    packages=(change.name,),
                )
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


def _accepted(lock: Lock | None) -> tuple[str, ...]:
    """Return the patterns of libraries that a lock's profile accepts as not covered."""
    kernels = {} if lock is None else lock.inputs.get("kernels", {})
    patterns = kernels.get("accept-missing", {}) if isinstance(kernels, Mapping) else {}
    return tuple(patterns) if isinstance(patterns, Mapping) else ()


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


def inputs(difference: Difference) -> Iterator[Finding]:
    """Tell changes of what the profile itself asks for."""
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
