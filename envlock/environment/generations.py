"""The generations of one profile on disk: which there are, which is current, which one a word means.

`environments` is the folder that holds them, `ENVLOCK_HOME/envs/NAME`. Builtins only: a rollback answers at once.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEAL = "seal/seal.json"
_HEX = frozenset("0123456789abcdef")


def is_name(text: str) -> bool:
    """Tell whether a name is a generation's, `0003-a0e09f54`: four digits or more, and eight of its lock's digest."""
    number, _, digest = text.partition("-")
    return len(number) >= 4 and number.isascii() and number.isdecimal() and len(digest) == 8 and _HEX.issuperset(digest)


def number(generation: str) -> int:
    """Return the number a generation's name begins with."""
    return int(generation.split("-", 1)[0])


def is_sealed(environments: str, generation: str) -> bool:
    """Tell whether a folder carries a seal: only then is it an environment."""
    return os.path.isfile(f"{environments}/{generation}/{SEAL}")


def listed(environments: str) -> tuple[str, ...]:
    """Return the sealed generations, oldest first."""
    try:
        names = os.listdir(environments)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted((name for name in names if is_name(name) and is_sealed(environments, name)), key=number))


def current(environments: str) -> str | None:
    """Return the generation `current` points at, or None when there is none (or it lost its seal)."""
    try:
        target = os.readlink(f"{environments}/current")
    except OSError:
        return None
    return target if is_name(target) and is_sealed(environments, target) else None


def named(there: Sequence[str], wanted: str) -> str | None:
    """Return the generation that a word names: `0003`, `3`, or the whole name."""
    digits = wanted.isascii() and wanted.isdecimal()
    bare = wanted.lstrip("0")
    return next((one for one in there if one == wanted or (digits and str(number(one)) == bare)), None)


def before(there: Sequence[str], now: str | None) -> str | None:
    """Return the generation before the current one, the newest when there is no current one."""
    older = [one for one in there if now is None or number(one) < number(now)]
    return older[-1] if older else None


def line(event: Mapping[str, str | None]) -> str:
    """Return one event of the history as JSON, without a newline."""
    try:
        from _json import encode_basestring as quote  # the C half of `json`, without the imports of its decoder
    except ImportError:
        from json.encoder import encode_basestring as quote
    pairs = (f"{quote(key)}:{'null' if value is None else quote(value)}" for key, value in event.items())
    return "{" + ",".join(pairs) + "}"
