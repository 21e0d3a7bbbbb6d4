"""How much of a library's device code a GPU can run. Pure: counts first, then the judgement of a whole environment."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from envlock.lock.document import Coverage, Lock
from envlock.lock.document import DeviceCode as PackageCode
from envlock.verify import rules
from envlock.verify.fatbin import Container, DeviceCode

Verdict = Literal["covered", "partly", "jit", "uncovered", "unknown", "elsewhere"]


class Library(NamedTuple):
    """One file with device code (or one folder of bare cubins)."""

    path: str
    """Below site-packages; `folder/*.cubin` for a folder of cubins."""
    package: str
    """Normalised name of the distribution that owns it, or empty."""
    code: DeviceCode


def count(code: DeviceCode, capability: str) -> Coverage:
    """Return how many containers run as machine code, only by compiling PTX, or not at all on a capability."""
    wanted = rules.device(capability)
    sass = ptx = none = 0
    for container, number in code.containers:
        if any(target.kind == "sass" and rules.runs(target, wanted) for target in container):
            sass += number
        elif any(target.kind == "ptx" and rules.runs(target, wanted) for target in container):
            ptx += number
        else:
            none += number
    return Coverage(sass=sass, ptx=ptx, none=none)


def ptx_needed(code: DeviceCode, capability: str) -> tuple[int, int] | None:
    """Return the PTX ISA version a driver must take to run what has no machine code; None when nothing needs it."""
    wanted = rules.device(capability)
    versions = []
    for container, _ in code.containers:
        if not any(target.kind == "sass" and rules.runs(target, wanted) for target in container):
            usable = [target.isa for target in container if target.isa and rules.runs(target, wanted)]
            if usable:
                versions.append(min(usable))
    return max(versions, default=None)


def verdict(library: Library, capability: str) -> Verdict:
    """Return what a library's device code means for a capability.

    `partly` is healthy in many libraries (kernels for other GPUs lie beside); `unknown` is never better than it looks.
    """
    if library.path.rpartition("/")[2].startswith(rules.PACKED_ELSEWHERE):
        return "elsewhere"
    counted = count(library.code, capability)
    if library.code.problems:
        return "unknown"
    if counted.sass:
        return "covered" if not counted.none else "partly"
    if counted.ptx:
        return "jit"
    return "uncovered" if counted.none else "covered"


def loadable(path: str) -> bool:
    """Tell whether a file is loaded at run time; static archives and objects are for a linker."""
    return not path.endswith((".a", ".o"))


def matches(path: str, pattern: str) -> bool:
    """Tell whether a library path is meant by an import name (`sgl_kernel`) or by a glob of `[kernels]`."""
    if any(letter in pattern for letter in "*?[/"):
        return fnmatchcase(path, pattern)
    top = path.split("/", 1)[0]
    return top == pattern or re.match(rf"{re.escape(pattern)}\.(?:[\w-]+\.)*so$", top) is not None


def accepted(path: str, accept: Mapping[str, str]) -> str | None:
    """Return the reason a profile gives for living without a library's code, or None."""
    return next((reason for pattern, reason in accept.items() if matches(path, pattern)), None)


def required(path: str, require: Sequence[str]) -> bool:
    """Tell whether a profile insists on a library's code; torch's own is insisted on always."""
    return any(matches(path, pattern) for pattern in ("torch", *require))


def merged(containers: Sequence[tuple[Container, int]]) -> tuple[tuple[Container, int], ...]:
    """Return containers counted together, in a fixed order."""
    total: dict[Container, int] = {}
    for container, number in containers:
        total[container] = total.get(container, 0) + number
    return tuple(sorted(total.items(), key=lambda item: ([str(target) for target in item[0]], item[1])))


def per_package(libraries: Sequence[Library], capabilities: Sequence[str]) -> dict[str, PackageCode]:
    """Return package -> the summary a lock keeps: targets, coverage per capability, libraries wholly without code.

    Only what is loaded at run time counts; archives are for linkers.
    """
    found: dict[str, list[Library]] = {}
    for library in libraries:
        if library.package and loadable(library.path):
            found.setdefault(library.package, []).append(library)
    return {name: _summary(members, capabilities) for name, members in sorted(found.items())}


def _summary(libraries: Sequence[Library], capabilities: Sequence[str]) -> PackageCode:
    targets = {
        str(target).partition("@")[0]
        for library in libraries
        for container, _ in library.code.containers
        for target in container
    }
    counted = {capability: [count(library.code, capability) for library in libraries] for capability in capabilities}
    return PackageCode(
        targets=tuple(sorted(targets)),
        coverage={
            capability: Coverage(
                sass=sum(item.sass for item in counts),
                ptx=sum(item.ptx for item in counts),
                none=sum(item.none for item in counts),
            )
            for capability, counts in counted.items()
        },
        uncovered=tuple(
            sorted(
                library.path
                for library in libraries
                if any(verdict(library, capability) in ("uncovered", "unknown") for capability in capabilities)
            )
        ),
    )


class Otherwise(NamedTuple):
    """A package whose device code is not what the lock recorded of it."""

    package: str
    locked: PackageCode
    found: PackageCode | None

    def told(self, capability: str) -> tuple[str, str]:
        """Return what the lock says and what was found, each as words for a person."""
        one, other = _words(self.locked, capability), _words(self.found, capability)
        if one == other:
            mine = () if self.found is None else self.found.targets
            return f"code for {' '.join(self.locked.targets)}", f"code for {' '.join(mine)}"
        return one, other


def _words(code: PackageCode | None, capability: str) -> str:
    if code is None:
        return "no device code at all"
    counted = code.coverage[capability]
    total = counted.sass + counted.ptx + counted.none
    return (
        f"{total} parts, of which {counted.sass} run on {capability}, {counted.ptx} only after compiling PTX, "
        f"{counted.none} not"
    )


def recorded(lock: Lock | None, capability: str, overlaid: Collection[str]) -> dict[str, PackageCode]:
    """Return package -> the device code a lock recorded for a capability.

    `overlaid` packages are left out: where one's library lies over another's, neither holds what its wheel did.
    """
    return {
        package.name: package.device_code
        for package in (() if lock is None else lock.packages)
        if package.device_code is not None
        and capability in package.device_code.coverage
        and package.name not in overlaid
    }


def otherwise(known: Mapping[str, PackageCode], libraries: Sequence[Library], capability: str) -> list[Otherwise]:
    """Return which packages hold other device code than `known` says."""
    there = per_package(libraries, (capability,))
    return [
        Otherwise(name, code, found)
        for name, code in known.items()
        if (found := there.get(name)) is None
        or found.coverage[capability] != code.coverage[capability]
        or found.targets != code.targets
    ]
