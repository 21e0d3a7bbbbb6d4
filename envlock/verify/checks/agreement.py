"""Profile, lock, seal and environment must tell of the same stack. Pure."""

from __future__ import annotations

from envlock.declare.profile import fingerprint
from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.subject import Subject

# Not part of a lock: what a venv may bring by itself (`venv`, `virtualenv --seed`), and what envlock puts there.
_SEEDS = frozenset({"pip", "setuptools", "wheel", "envlock-guard"})


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge whether each stage answers the one before it."""
    return (_lock(subject), _seal(subject), _place(subject), _packages(subject))


def _name(subject: Subject) -> str:
    return subject.profile.name if subject.profile else subject.lock.profile if subject.lock else "NAME"


def _lock(subject: Subject) -> Check:
    if subject.profile is None or subject.lock is None:
        return skipped("agreement.lock", "no profile and lock to compare")
    wanted = fingerprint(subject.profile)
    if subject.lock.profile_digest == wanted:
        return good("agreement.lock", found="the lock answers the profile")
    return bad(
        "agreement.lock",
        expected=f"a lock of the profile as it is ({wanted[:12]})",
        found=f"a lock of an earlier profile ({subject.lock.profile_digest[:12]})",
        where=f"locks/{subject.profile.name}.toml",
        remedy=f"envlock lock {subject.profile.name}",
    )


def _seal(subject: Subject) -> Check:
    if subject.seal is None or subject.lock_digest is None:
        return skipped("agreement.seal", "no lock and seal to compare")
    if subject.seal.lock_digest == subject.lock_digest:
        return good("agreement.seal", found=f"built from this lock ({subject.lock_digest[:12]})")
    return bad(
        "agreement.seal",
        expected=f"an environment built from the lock as it is ({subject.lock_digest[:12]})",
        found=f"{subject.seal.generation}, built from another ({subject.seal.lock_digest[:12]})",
        where=subject.prefix,
        remedy=f"envlock sync {_name(subject)}",
    )


def _place(subject: Subject) -> Check:
    if subject.seal is None:
        return skipped("agreement.place", "not sealed")
    if subject.seal.prefix == subject.prefix:
        return good("agreement.place", found=subject.prefix)
    return bad(
        "agreement.place",
        expected=subject.seal.prefix,
        found=subject.prefix,
        where=f"{subject.prefix}/seal/seal.json",
        remedy=f"an environment cannot be moved or copied: envlock sync {_name(subject)} builds one here",
    )


def _packages(subject: Subject) -> Check:
    if subject.lock is None:
        return skipped("agreement.packages", "no lock to compare")
    locked = {package.name: package.version for package in subject.lock.packages}
    there = {item.name: item.version for item in subject.facts.installed}
    differing = [
        f"{name} {there.get(name, 'missing')} (locked {version})"
        for name, version in locked.items()
        if not _same(version, there.get(name))
    ]
    differing += [f"{name} {there[name]} (not locked)" for name in sorted(there.keys() - locked.keys() - _SEEDS)]
    if not differing:
        return good("agreement.packages", found=f"{len(locked)} packages, each as locked")
    return bad(
        "agreement.packages",
        expected=f"the {len(locked)} packages of the lock, nothing else",
        found=listed(differing, 5),
        where=subject.site,
        remedy=f"something was installed by hand: envlock sync --rebuild {_name(subject)}",
    )


def _same(locked: str, there: str | None) -> bool:
    # A folder name writes `+cu128` and `-` its own way. A local part that is locked is asked for (2.11.0+cu128).
    if there is None:
        return False
    one, other = there.replace("_", "-"), locked.replace("_", "-")
    return one == other or ("+" not in other and one.split("+")[0] == other)
