"""The files themselves: as sealed, each with one owner. Pure."""

from __future__ import annotations

from envlock.environment.inventory import Drift
from envlock.environment.seal import FOLDER
from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.coverage import required
from envlock.verify.subject import Subject


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge drift from the seal (or, deep, from the records), shared edits, who owns a file, and where it lies."""
    return (
        _drift(subject),
        _seal(subject),
        _shared(subject),
        _owners(subject),
        _recorded(subject),
        _outside(subject),
        _permissions(subject),
    )


def _told(item: Drift) -> str:
    owner = f" ({item.package})" if item.package else ""
    detail = f": {item.detail}" if item.detail and item.detail != item.kind else ""
    return f"{item.kind} {item.path}{owner}{detail}"


def _drift(subject: Subject) -> Check:
    name = "files.drift"
    if subject.drift is None:
        return skipped(name, "not sealed: nothing to differ from (--deep compares with the wheels' own records)")
    if not subject.drift:
        how = "every byte hashed" if subject.deep else "size and time of every file; --deep hashes them"
        return good(name, found=f"nothing changed ({how})")
    first = subject.drift[0]
    profile = subject.seal.profile if subject.seal else "NAME"
    return bad(
        name,
        expected="every file as it was sealed" if subject.seal else "every file as its distribution recorded it",
        found=listed([_told(item) for item in subject.drift]),
        where=f"{subject.prefix}/{first.path}",
        remedy=f"envlock sync --rebuild {profile}; changes belong into a package or a patch, not into an environment",
    )


def _seal(subject: Subject) -> Check:
    name = "files.seal"
    if subject.seal is None:
        return skipped(name, "not sealed")
    if not subject.seal.digests:
        return skipped(name, "sealed by an envlock that kept no digests of the seal's own files")
    if not subject.seal_edited:
        return good(name, found="the seal is as it was written")
    return bad(
        name,
        expected="the seal as it was written",
        found=f"{listed(list(subject.seal_edited))}: edited or gone",
        where=f"{subject.prefix}/{FOLDER}/{subject.seal_edited[0]}",
        remedy=f"what it says of this environment is not to be believed: envlock sync --rebuild {subject.seal.profile}",
    )


def _shared(subject: Subject) -> Check:
    name = "files.shared-edit"
    if subject.drift is None:
        return skipped(name, "not sealed")
    linked = sorted(subject.around.linked)
    if not linked:
        return good(name, found="no changed file is shared with another environment")
    return bad(
        name,
        expected="files edited nowhere but in a copy of their own",
        found=f"edited in place through a hard link: {listed(linked)}",
        where=f"{subject.prefix}/{linked[0]}",
        remedy="the installer's cache and other environments changed with it: envlock sync --rebuild mends both; "
        'links = "copy" in the profile keeps them apart',
    )


def _owners(subject: Subject) -> Check:
    name = "files.one-owner"
    accepted = {} if subject.profile is None else subject.profile.overlaps
    several = [
        claim
        for claim in subject.facts.claims
        if not any(set(claim.packages) <= {winner, *losers} for winner, losers in accepted.items())
    ]
    # A test or a build script that two wheels both brought by mistake harms nobody; a library does.
    grave = [claim for claim in several if claim.path.endswith((".so", ".a")) or ".so." in claim.path]
    if not several:
        told = f"{len(subject.facts.claims)} overlaps, all declared" if subject.facts.claims else "one owner each"
        return good(name, found=told)
    shown = [f"{claim.path} ({' and '.join(claim.packages)})" for claim in grave or several]
    return bad(
        name,
        status="fail" if grave else "warn",
        expected="one package for each file, or an [overlaps] entry that says whose bytes are wanted",
        found=listed(shown, 2),
        where=f"{subject.site}/{(grave or several)[0].path}",
        remedy='`exclude` one of the packages, or [overlaps] WINNER = ["LOSER"]; then envlock lock'
        if subject.profile
        else "a profile that declares it in [overlaps] is held to it: envlock verify NAME --python PATH",
    )


def _recorded(subject: Subject) -> Check:
    """Judge whether there is anything to hold the files against."""
    name = "files.recorded"
    if subject.seal is not None:
        return good(name, found="the seal holds the hash of every file")
    require = subject.profile.kernels.require if subject.profile else ()
    insisted = {pattern.replace("_", "-") for pattern in ("torch", *require)}
    names = {item.name for item in subject.facts.installed}
    loose = {item.folder: item for item in subject.facts.installed if item.unchecked}
    told = {path: f"{item.name}: {item.unchecked}" for path, item in loose.items()}
    grave = {path: words for path, words in told.items() if loose[path].name in insisted}
    # without its RECORD a package's libraries are nobody's, whatever the package is called
    named = {loose[path].name.replace("-", "_") for path in grave}
    for binary in subject.facts.binaries:
        top = binary.path.partition("/")[0]
        if required(binary.path, require) and binary.package not in names and top not in named:
            grave[binary.path] = f"{binary.path}: recorded by no distribution"
    shown = grave | told
    if not shown:
        return good(name, found=f"{len(names)} distributions recorded the hash of every file of theirs")
    return bad(
        name,
        status="fail" if grave else "warn",
        expected="a hash of every file, to hold it against",
        found=listed(list(shown.values())),
        where=f"{subject.site}/{next(iter(shown))}",
        remedy="whether its files are what was published cannot be told: install that package anew",
    )


def _outside(subject: Subject) -> Check:
    name = "files.outside"
    links = subject.facts.outside
    if not links:
        return good(name, found="no link in site-packages leads out of the environment")
    insisted = subject.profile.kernels.require if subject.profile else ()
    grave = [item for item in links if item.folder and (item.package or required(item.path, insisted))]
    shown = grave or list(links)
    return bad(
        name,
        status="fail" if grave else "warn",
        expected="every package in the environment itself",
        found=listed([f"{item.path} leads to {item.target}" for item in shown]),
        where=f"{subject.site}/{shown[0].path}",
        remedy="what lies there changes without this environment, and is not judged: install the package here",
    )


def _permissions(subject: Subject) -> Check:
    name = "files.permissions"
    faults = sorted(subject.faults, key=lambda item: not item.grave)
    if not faults:
        return good(
            name, found="every file" if subject.deep else "programs, folders and libraries; --deep looks at all"
        )
    first = faults[0]
    return bad(
        name,
        status="fail" if first.grave else "warn",
        expected="files that this user can read, programs that can be started, and nothing that anybody may change",
        found=listed([f"{item.path} {item.told}" for item in faults]),
        where=f"{subject.prefix}/{first.path}",
        remedy="chmod it back, or envlock sync --rebuild; what was changed meanwhile is told by --deep",
    )
