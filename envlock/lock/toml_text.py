"""TOML in a fixed form: the same value is always the same bytes, and a change of one value is a change of one line.

tomlkit keeps what a person wrote; a lock is written by a machine and must not depend on what was there before, so this
writer has one way to say each thing. Reading is `tomllib`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """Return a key, quoted only when it must be."""
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """Return a basic string. JSON's escapes are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def value(item: object) -> str:
    """Return a scalar, or an inline table."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, str):
        return string(item)
    if isinstance(item, Mapping):
        inside = ", ".join(f"{key(name)} = {value(child)}" for name, child in item.items() if child is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(item, Sequence):
        return f"[{', '.join(value(child) for child in item)}]"
    raise TypeError(f"no TOML for {type(item).__name__}")


def pair(name: str, item: object) -> str:
    """Return `name = value` with a newline; a list takes one line an entry, so that it merges and reviews well."""
    if isinstance(item, Sequence) and not isinstance(item, str):
        if not item:
            return f"{key(name)} = []\n"
        lines = "".join(f"  {value(child)},\n" for child in item)
        return f"{key(name)} = [\n{lines}]\n"
    return f"{key(name)} = {value(item)}\n"


def table(path: Sequence[str], content: Mapping[str, object]) -> str:
    """Return a table and its sub-tables; what is None or an empty table is left out."""
    head = "".join(
        pair(name, item) for name, item in content.items() if item is not None and not isinstance(item, Mapping)
    )
    subs = "".join(table([*path, name], item) for name, item in content.items() if isinstance(item, Mapping) and item)
    title = ".".join(key(part) for part in path)
    return (f"\n[{title}]\n{head}" if head else "") + subs
