"""The static tier: what can be told from files, without importing or running anything of the environment."""

from __future__ import annotations

from pathlib import Path

from envlock.declare.profile import Profile
from envlock.environment.seal import Seal
from envlock.lock.document import Lock
from envlock.verify.check import Check
from envlock.verify.checks import FAMILIES
from envlock.verify.files import read_subject
from envlock.verify.subject import Subject


def static_checks(
    prefix: Path,
    *,
    profile: Profile | None = None,
    lock: Lock | None = None,
    lock_digest: str | None = None,
    seal: Seal | None = None,
    deep: bool = False,
    driver: str | None = None,
    cache: Path | None = None,
) -> tuple[Check, ...]:
    """Judge an environment by its files: a sealed generation by its seal, any other by reading everything.

    `deep` hashes every sealed byte; `driver` lets PTX be judged; `cache` remembers what files hold. Raises StoreError
    when the prefix holds no environment.
    """
    return judge(
        read_subject(
            prefix,
            profile=profile,
            lock=lock,
            lock_digest=lock_digest,
            seal=seal,
            deep=deep,
            driver=driver,
            cache=cache,
        )
    )


def judge(subject: Subject) -> tuple[Check, ...]:
    """Return every static check of a subject, in their fixed order. Pure."""
    return tuple(check for family in FAMILIES for check in family(subject))
