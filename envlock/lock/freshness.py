"""Does a lock still answer its profile? The answer is the list of what differs, with both values; never a bare no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envlock.declare.profile import Profile, fingerprint, lock_inputs
from envlock.lock.document import Lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """One input of a lock that is no longer what the profile says."""

    key: str
    was: object
    now: object

    def __str__(self) -> str:
        if isinstance(self.was, list) and isinstance(self.now, list):
            gone = [f"-{item}" for item in self.was if item not in self.now]
            come = [f"+{item}" for item in self.now if item not in self.was]
            return f"{self.key}: {', '.join(gone + come)}"
        return f"{self.key}: locked for {_word(self.was)}, the profile now says {_word(self.now)}"


def _word(item: object) -> str:
    return "nothing" if item in (None, [], {}, "") else repr(item)


def is_fresh(profile: Profile, lock: Lock) -> bool:
    """Tell whether the lock was made for exactly this profile."""
    return lock.profile_digest == fingerprint(profile)


def compare(profile: Profile, lock: Lock) -> tuple[Changed, ...]:
    """Return what changed in the profile since it was locked; empty when the lock is fresh."""
    if is_fresh(profile, lock):
        return ()
    changes = tuple(_differences("", dict(lock.inputs), lock_inputs(profile)))
    return changes or (Changed(key="profile-digest", was=lock.profile_digest[:12], now=fingerprint(profile)[:12]),)


def _differences(prefix: str, was: Mapping[str, object], now: Mapping[str, object]) -> list[Changed]:
    found: list[Changed] = []
    for name in [*was, *(name for name in now if name not in was)]:
        before, after = was.get(name), now.get(name)
        if before == after:
            continue
        path = f"{prefix}{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found.extend(_differences(f"{path}.", before, after))
        else:
            found.append(Changed(key=path, was=before, now=after))
    return found
