"""Reading what `toml_text` wrote, four times as fast as a parser for all of TOML. Pure.

A lock is written in one fixed form and carries a digest of itself, so a text whose digest holds needs no general
parser: this reader takes that form, line by line, and refuses everything else with ValueError; then `tomllib` has the
word.
Standard library only, and of that only builtins: `envlock why` answers before anything comfortable is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FORMAT = 1
"""The lock format this envlock writes. It reads this and every earlier one; a later one is refused by name."""
_INTEGER = frozenset("-0123456789")
DIGEST = 'content-digest = "'


def sha256(content: bytes) -> str:
    """Return the sha256 of a few kilobytes in hex; without OpenSSL, whose loading takes longer than the hashing."""
    for module in ("_sha2", "_sha256", "hashlib"):  # CPython from 3.12 on, CPython 3.11, anything
        try:
            return str(__import__(module).sha256(content).hexdigest())
        except (ImportError, AttributeError):
            continue
    raise ImportError("no sha256 in this Python")


def read(text: str) -> dict[str, Any] | None:
    """Return the tables of a whole lock whose digest holds; None when it does not, or the form is another."""
    stated = split(text)
    if stated is None or sha256(stated[1].encode()) != stated[0]:
        return None
    try:
        return load(stated[1])
    except (ValueError, IndexError, TypeError, AttributeError):
        return None


def split(text: str) -> tuple[str, str] | None:
    """Return a lock's content digest as it states it, and the part of the text it is of; None when it states none."""
    start = text.find(DIGEST)
    if start < 0 or (start > 0 and text[start - 1] != "\n"):
        return None
    begin = start + len(DIGEST)
    digest, end = text[begin : begin + 64], text[begin + 64 : begin + 66]
    return (digest, text[begin + 66 :]) if end == '"\n' and set(digest) <= set("0123456789abcdef") else None


def load(body: str) -> dict[str, Any]:
    """Return the tables of a text in the canonical form, as `tomllib.loads` would. Raises ValueError for any other."""
    data: dict[str, Any] = {}
    table = data
    lines = iter(body.split("\n"))
    for line in lines:
        if not line:
            continue
        if line[0] == "[":
            table = _open(data, line)
            continue
        name, value = _pair(line)
        if name in table:
            raise ValueError(line)
        table[name] = _items(lines) if value == "[" else _value(value)
    return data


def _items(lines: Iterator[str]) -> list[Any]:
    found: list[Any] = []
    for line in lines:
        if line == "]":
            return found
        if not (line.startswith("  ") and line.endswith(",")):
            raise ValueError(line)
        found.append(_value(line[2:-1]))
    raise ValueError("an array without an end")


def _open(data: dict[str, Any], line: str) -> dict[str, Any]:
    """Return the table that a header opens, made and put in its place."""
    table: dict[str, Any] = {}
    if line.startswith("[[") and line.endswith("]]"):
        there = data.setdefault(_bare(line[2:-2]), [])
        if not isinstance(there, list):
            raise ValueError(line)
        there.append(table)
        return table
    *above, last = _path(line)
    here: Any = data
    for part in above:
        here = here.setdefault(part, {})
        if isinstance(here, list):
            here = here[-1]
    if not isinstance(here, dict) or last in here:
        raise ValueError(line)
    here[last] = table
    return table


def _path(line: str) -> list[str]:
    """Take `[a."b.c".d]` apart."""
    if not line.endswith("]"):
        raise ValueError(line)
    rest, parts = line[1:-1], []
    while True:
        if rest.startswith('"'):
            end = rest.find('"', 1)
            part, rest = _text(rest[: end + 1]), rest[end + 1 :]
        else:
            end = rest.find(".")
            part, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
            part = _bare(part)
        parts.append(part)
        if not rest:
            return parts
        if rest[0] != ".":
            raise ValueError(line)
        rest = rest[1:]


def _bare(name: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ValueError(name)
    return name


def _pair(line: str) -> tuple[str, str]:
    """Split `key = value`."""
    if line[0] == '"':
        end = line.find('"', 1)
        name, rest = _text(line[: end + 1]), line[end + 1 :]
        if not rest.startswith(" = "):
            raise ValueError(line)
        return name, rest[3:]
    name, equals, value = line.partition(" = ")
    if not equals:
        raise ValueError(line)
    return _bare(name), value


def _text(quoted: str) -> str:
    """Return a basic string without escapes."""
    if len(quoted) < 2 or "\\" in quoted or quoted[0] != '"' or quoted.find('"', 1) != len(quoted) - 1:
        raise ValueError(quoted)
    return quoted[1:-1]


def _value(word: str) -> Any:
    first = word[:1]
    if first == '"':
        return _text(word)
    if first == "{":
        return _inline(word)
    if word in ("true", "false"):
        return word == "true"
    if word == "[]":
        return []
    if word and _INTEGER.issuperset(word):
        return int(word)
    raise ValueError(word)


def _inline(word: str) -> dict[str, Any]:
    """Read `{ a = "x", b = 1 }`, whose values are strings, integers and booleans."""
    if word == "{}":
        return {}
    if not (word.startswith("{ ") and word.endswith(" }")):
        raise ValueError(word)
    found: dict[str, Any] = {}
    rest = word[2:-2]
    while rest:
        name, rest = _pair(rest)
        if rest[:1] == '"':
            end = rest.find('"', 1) + 1
        else:
            end = rest.find(", ")
            end = len(rest) if end < 0 else end
        if name in found or end == 0:
            raise ValueError(word)
        found[name] = _value(rest[:end])
        rest = rest[end:]
        if rest and not rest.startswith(", "):
            raise ValueError(word)
        rest = rest[2:]
    return found
