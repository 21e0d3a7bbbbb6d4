"""Taking a TOML file apart, field by field, and remembering every fault with its line. Pure.

Both kinds of declaration (profiles, containers) are read through this, so a wrong key is told the same way everywhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from envlock.errors import Fault

_Word = TypeVar("_Word", bound=str)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB|TiB)")
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
_KEY = re.compile(r"""\s*["']?([^"'=\s]+)["']?\s*=""")
_KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class Table:
    """One table of the file being taken apart; what nobody asked for in the end is a fault."""

    def __init__(
        self,
        data: Mapping[str, Any],
        at: str,
        faults: list[Fault],
        lines: Mapping[str, int] | Callable[[], Mapping[str, int]],
    ) -> None:
        """Begin a table; `lines` may be a function, called at the first fault: a file without one is never searched."""
        self.data = data
        self.at = at
        self.faults = faults
        self.lines = lines
        self.asked: set[str] = set()

    def path(self, key: str) -> str:
        """Return the full key, `torch.version`."""
        return f"{self.at}.{key}" if self.at else key

    def fault(self, key: str, message: str, *, found: Any = None, suggestion: str | None = None) -> None:
        """Remember that a key is wrong, at its line, or at its table's."""
        path = self.path(key)
        known = self.lines() if callable(self.lines) else self.lines
        line = known.get(path, known.get(self.at))
        self.faults.append(
            Fault(path, message, line=line, found=None if found is None else repr(found), suggestion=suggestion)
        )

    def take(self, key: str, kind: type) -> Any:
        """Return the value of `key` if it is there and of that kind, else None (a wrong kind is a fault)."""
        self.asked.add(key)
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fault(key, f"must be {_KINDS[kind]}, not {_KINDS.get(type(value), type(value).__name__)}", found=value)
            return None
        return value

    def text(self, key: str) -> str | None:
        """Return one line of text, or None."""
        value = self.take(key, str)
        if value is not None and (not value or "\n" in value or "\0" in value):
            self.fault(key, "must be one line, and not empty", found=value)
            return None
        return cast("str | None", value)

    def number(self, key: str, low: int, high: int) -> int | None:
        """Return a whole number within bounds, or None."""
        value = self.take(key, int)
        if value is not None and not low <= value <= high:
            self.fault(key, f"must be from {low} to {high}", found=value)
            return None
        return cast("int | None", value)

    def flag(self, key: str) -> bool:
        """Return true or false; absent is false."""
        return bool(self.take(key, bool))

    def choice(self, key: str, words: Sequence[_Word]) -> _Word | None:
        """Return one of the words, or None."""
        value = self.text(key)
        if value is None:
            return None
        for word in words:
            if word == value:
                return word
        close = difflib.get_close_matches(value, [str(word) for word in words], n=1)
        self.fault(key, f"must be one of {', '.join(words)}", found=value, suggestion=close[0] if close else None)
        return None

    def size(self, key: str) -> int | None:
        """Return a size in bytes written as `90 GiB`, or None."""
        value = self.text(key)
        if value is None:
            return None
        match = _SIZE.fullmatch(value)
        if match is None:
            self.fault(key, 'must be a size such as "64 GiB" or "512 MiB"', found=value)
            return None
        return int(float(match[1]) * (1 << _UNITS[match[2]]))

    def folder(self, key: str) -> str | None:
        """Return an absolute path, or None."""
        value = self.text(key)
        if value is None:
            return None
        if not value.startswith("/") or ".." in value.split("/") or any(char in value for char in " ,\t"):
            self.fault(key, "must be an absolute path without `..`, spaces or commas", found=value)
            return None
        return value.rstrip("/") or "/"

    def strings(self, key: str, pattern: re.Pattern[str] | None = None, says: str = "") -> tuple[str, ...]:
        """Return a list of strings, each matching `pattern` (else it `says` what is wrong)."""
        values = self.take(key, list) or []
        good = []
        for number, value in enumerate(values):
            if not isinstance(value, str) or not value or "\n" in value:
                self.fault(key, f"entry {number + 1} must be a string of one line", found=value)
            elif pattern is not None and pattern.fullmatch(value) is None:
                self.fault(key, f"entry {number + 1} {says}", found=value)
            else:
                good.append(value)
        return tuple(good)

    def table(self, key: str) -> Table | None:
        """Return a sub-table, or None."""
        value = self.take(key, dict)
        return None if value is None else Table(value, self.path(key), self.faults, self.lines)

    def tables(self, key: str) -> list[Table]:
        """Return the tables of an array of tables."""
        values = self.take(key, list) or []
        found = []
        for number, value in enumerate(values):
            if isinstance(value, dict):
                found.append(Table(value, f"{self.path(key)}[{number}]", self.faults, self.lines))
            else:
                self.fault(key, f"write [[{self.path(key)}]] tables", found=value)
        return found

    def close(self, keys: Sequence[str] = ()) -> None:
        """Make a fault of every key nobody asked for; `keys` are all that could have been there."""
        for key in self.data:
            if key not in self.asked:
                close = difflib.get_close_matches(key, sorted({*self.asked, *keys}), n=1)
                self.fault(key, "unknown key", suggestion=close[0] if close else None)


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of each table header and key, by path as faults name them (`mount[1].target`)."""
    found: dict[str, int] = {}
    at = ""
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            at = header[1]
            if line.lstrip().startswith("[["):
                seen[at] = seen.get(at, -1) + 1
                at = f"{at}[{seen[at]}]"
            found.setdefault(at, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{at}.{key[1]}" if at else key[1], number)
    return found
