"""Device code against the declared GPU: what must run there, what may not, and what would be compiled first. Pure."""

from __future__ import annotations

from envlock.verify import rules
from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.coverage import (
    Library,
    accepted,
    count,
    loadable,
    matches,
    otherwise,
    ptx_needed,
    recorded,
    required,
    verdict,
)
from envlock.verify.subject import Subject


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge coverage of what is required, of the rest, of PTX, and against what the lock recorded."""
    capability = subject.capability
    names = ("kernels.required", "kernels.coverage", "kernels.accepted", "kernels.ptx", "kernels.locked")
    if subject.profile is None or capability is None:
        return tuple(skipped(name, "no compute capability declared") for name in names)
    kernels = subject.profile.kernels
    libraries = [library for library in subject.facts.libraries if loadable(library.path)]
    reasons = {library.path: accepted(library.path, kernels.accept_missing) for library in libraries}
    insisted = [item for item in libraries if required(item.path, kernels.require) and not reasons[item.path]]
    others = [item for item in libraries if item not in insisted and not reasons[item.path]]
    lived_with = [item for item in libraries if reasons[item.path] and verdict(item, capability) != "covered"]
    return (
        _required(subject, capability, insisted, kernels.require),
        _others(subject, capability, others),
        _accepted(lived_with, reasons),
        _ptx(subject, capability, [item for item in libraries if not reasons[item.path]], kernels.require),
        _locked(subject, capability),
    )


def _told(library: Library, capability: str) -> str:
    counted = count(library.code, capability)
    if library.code.problems:
        return f"{library.path}: cannot be told ({library.code.problems[0]})"
    targets = sorted({_short(str(target)) for container, _ in library.code.containers for target in container})
    return f"{library.path}: {counted.none} of {library.code.total} parts have nothing, only {listed(targets, 6)}"


def _short(target: str) -> str:
    return target.partition("@")[0]


def _required(subject: Subject, capability: str, libraries: list[Library], require: tuple[str, ...]) -> Check:
    name = "kernels.required"
    where = {library.path: verdict(library, capability) for library in libraries}
    wrong = [item for item in libraries if where[item.path] in ("uncovered", "unknown")]
    wrong += [item for item in libraries if where[item.path] == "partly" and item.path.startswith("torch/")]
    absent = [pattern for pattern in require if not _present(subject, pattern)]
    if wrong or absent:
        told = [_told(item, capability) for item in wrong] + [f"{pattern}: not installed" for pattern in absent]
        return bad(
            name,
            expected=f"code for {capability} in torch and in everything of [kernels] require",
            found=listed(told, 3),
            where=f"{subject.site}/{wrong[0].path}" if wrong else subject.site,
            remedy=f"take a build with sm_{rules.device(capability)}, or name the file and the reason in "
            "[kernels.accept-missing] if the stack never loads it",
        )
    partly = [item for item in libraries if where[item.path] == "partly"]
    if partly:
        return bad(
            name,
            status="warn",
            expected=f"code for {capability} in every part of what is required",
            found=listed([_told(item, capability) for item in partly], 3),
            where=f"{subject.site}/{partly[0].path}",
            remedy="parts for other GPUs may be on purpose; if a kernel is missing, take another build",
        )
    return good(name, found=f"{len(libraries)} required libraries have code for {capability}")


def _present(subject: Subject, pattern: str) -> bool:
    if pattern in subject.facts.modules:
        return True
    paths = [library.path for library in subject.facts.libraries] + [item.path for item in subject.facts.binaries]
    return any(matches(path, pattern) for path in paths)


def _others(subject: Subject, capability: str, libraries: list[Library]) -> Check:
    name = "kernels.coverage"
    wrong = [item for item in libraries if verdict(item, capability) in ("uncovered", "unknown")]
    if not wrong:
        return good(name, found=f"no other library is wholly without code for {capability}")
    return bad(
        name,
        status="warn",
        expected=f"some code for {capability} in every library that has device code",
        found=listed([_told(item, capability) for item in wrong], 3),
        where=f"{subject.site}/{wrong[0].path}",
        remedy="what calls them dies at the first call; if nothing does, say why in [kernels.accept-missing]",
    )


def _accepted(libraries: list[Library], reasons: dict[str, str | None]) -> Check:
    name = "kernels.accepted"
    if not libraries:
        return good(name, found="nothing is accepted as missing")
    by_reason: dict[str, list[str]] = {}
    for item in libraries:
        by_reason.setdefault(str(reasons[item.path]), []).append(item.path)
    few_first = sorted(by_reason.items(), key=lambda pair: (len(pair[1]), pair[0]))
    return good(name, found="; ".join(f"{listed(paths, 2)}: {reason}" for reason, paths in few_first))


def _ptx(subject: Subject, capability: str, libraries: list[Library], require: tuple[str, ...]) -> Check:
    name = "kernels.ptx"
    waiting = [item for item in libraries if verdict(item, capability) == "jit"]
    refused = {item.path: isa for item in libraries if (isa := _refused(subject.driver, item, capability))}
    if refused:
        # One part among many that this driver cannot compile ends what calls it, no more, unless it is required.
        grave = [item.path for item in waiting if item.path in refused]
        grave += [path for path in refused if required(path, require)]
        shown = grave or list(refused)
        needs = [
            f"{path} needs PTX {_dotted(refused[path])} (driver {rules.ptx_floor(refused[path])})" for path in shown
        ]
        return bad(
            name,
            status="fail" if grave else "warn",
            expected=f"PTX that driver {subject.driver} can compile",
            found=listed(list(dict.fromkeys(needs))),
            where=f"{subject.site}/{shown[0]}",
            remedy="minor-version compatibility does not cover PTX: a newer driver, or a build with machine code",
        )
    if not waiting:
        return good(name, found="nothing has to be compiled for this GPU at its first use")
    told = [f"{item.path} (PTX {_dotted(isa)})" for item in waiting if (isa := ptx_needed(item.code, capability))]
    return bad(
        name,
        status="warn",
        expected=f"machine code for {capability}",
        found=f"PTX alone, compiled at first use: {listed(told)}",
        where=f"{subject.site}/{waiting[0].path}",
        remedy="slow the first time, and kept in CUDA_CACHE_PATH; a build with machine code avoids it",
    )


def _refused(driver: str | None, library: Library, capability: str) -> tuple[int, int] | None:
    """Return the PTX version that something in a library needs and a driver cannot take, or None."""
    isa = None if driver is None else ptx_needed(library.code, capability)
    return isa if driver is not None and isa is not None and rules.takes_ptx(driver, isa) is False else None


def _dotted(isa: tuple[int, int]) -> str:
    return f"{isa[0]}.{isa[1]}"


def _locked(subject: Subject, capability: str) -> Check:
    name = "kernels.locked"
    known = recorded(subject.lock, capability, subject.facts.overlaid)
    if not known:
        return skipped(name, f"the lock says nothing of device code for {capability} (locked with --no-inspect)")
    wrong = otherwise(known, subject.facts.libraries, capability)
    if not wrong:
        return good(name, found=f"{len(known)} packages hold the device code that the lock says")
    # Sealed files are the locked wheels' by their hashes; then only the reader can have learnt something since.
    proven = subject.seal is not None and not subject.drift and subject.seal.lock_digest == subject.lock_digest
    told = [(item.package, *item.told(capability)) for item in wrong]
    profile = subject.profile.name if subject.profile else "NAME"
    if proven:
        remedy = (
            f"the files are the locked wheels' (their hashes hold); read them anew: envlock lock --inspect {profile}"
        )
    elif subject.seal is not None:
        remedy = f"the files are not those that were locked: envlock sync --rebuild {profile}"
    else:
        remedy = f"this environment was not made from the lock: envlock sync {profile} makes one that is"
    return bad(
        name,
        status="warn" if proven else "fail",
        expected=f"as the lock says: {listed([f'{package}: {locked}' for package, locked, _ in told], 2)}",
        found=listed([f"{package}: {found}" for package, _, found in told], 2),
        where=subject.site,
        remedy=remedy,
    )
