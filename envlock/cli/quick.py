"""The plainest `why`, `rollback`, `diff` and `verify`, answered before the command line's parser is imported.

They are asked at night and from hooks, and what they do takes a few milliseconds; importing click takes thirty.
Whatever is not plain (an option, a name that is no profile, a lock that is not whole) is left to the full commands,
which say the same where both can answer. Builtins only, until a form was recognised.
"""

from __future__ import annotations

import os
import sys

from envlock import where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

MOST = 12
"""Ways that `why` shows when not told otherwise."""
_STATIC, _JSON = ["--tier", "static"], ["--json"]
_NOTHING: list[str] = []
_VERIFY = (_NOTHING, _JSON, _STATIC, [*_STATIC, *_JSON], [*_JSON, *_STATIC])
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def attempt(words: Sequence[str]) -> int | None:
    """Answer, and return the exit code; None when these words are not for here."""
    project, words = where.without_project_option(words)
    if not words or words[0] not in ("why", "rollback", "diff", "verify"):
        return None
    found = where.locate(project, os.environ)
    if found is None:
        return None
    rest = words[1:]
    if words[0] == "why":
        return _why(found[0], rest)
    if words[0] == "rollback":
        return _rollback(found, rest)
    if words[0] == "verify":
        return _verify(found, rest)
    return _diff(found, rest)


def _plain(name: str) -> bool:
    """Tell whether a word can only be a profile's name, or a generation's."""
    return bool(name) and name[0] != "-" and _NAME.issuperset(name)


def _why(project: str, words: Sequence[str]) -> int | None:
    if len(words) != 2 or not _plain(words[0]) or words[1].startswith("-"):
        return None
    from envlock.lock import canonical
    from envlock.review import reasons

    try:
        with open(f"{project}/locks/{words[0]}.toml", encoding="utf-8", newline="") as file:
            data = canonical.read(file.read())
    except (OSError, ValueError):
        return None
    if data is None or data.get("profile") != words[0] or data.get("format") != canonical.FORMAT:
        return None
    graph = reasons.Graph.of_tables(data)
    package = reasons.normalised(words[1])
    if package not in graph.versions:
        return None
    lines = list(reasons.told(graph, package, most=MOST))
    lines[0] = _bold(lines[0], _coloured(sys.stdout)) + reasons.from_where(graph, package)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _rollback(found: tuple[str, str], words: Sequence[str]) -> int | None:
    if not 1 <= len(words) <= 2 or not all(_plain(word) for word in words):
        return None
    from envlock.errors import EnvlockError
    from envlock.workflows import rollback

    project, home = found
    name, wanted = words[0], words[1] if len(words) == 2 else None
    try:
        done = rollback.back(f"{home}/envs/{name}", name, wanted, project=project)
    except EnvlockError as error:
        from envlock.cli.main import report

        report(error, as_json=False)
        return error.exit_code
    first, *others = rollback.told(name, *done)
    sys.stderr.write("\n".join([_bold(name, _coloured(sys.stderr)) + first.removeprefix(name), *others]) + "\n")
    return 0


def _verify(found: tuple[str, str], words: Sequence[str]) -> int | None:
    """Tell what an earlier verification by files said, if it would say the same now."""
    if not words or not _plain(words[0]) or words[1:] not in _VERIFY:
        return None
    from envlock.launch import verdict

    said = verdict.recall(found, words[0], verdict.kind(only_static="static" in words))
    if said is None:
        return None
    form = "json" if "--json" in words else "coloured" if _coloured(sys.stdout) else "text"
    sys.stdout.write(f"{said[form]}\n")
    return 0


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org


def _bold(text: str, terminal: bool) -> str:
    return f"\033[1m{text}\033[0m" if terminal else text


def _diff(found: tuple[str, str], words: Sequence[str]) -> int | None:
    """Compare two profiles; with `--format NAME`, and with `-o FILE`."""
    sides, options = words[:2], words[2:]
    if len(sides) != 2 or not all(_plain(side) for side in sides) or len(options) % 2:
        return None
    asked = dict(zip(options[::2], options[1::2], strict=True))
    if len(asked) * 2 != len(options) or not asked.keys() <= {"--format", "-o"}:
        return None
    from envlock.review import formats

    form = asked.get("--format", "text")
    project, home = found
    if form not in formats.NAMES or not all(os.path.isfile(f"{project}/locks/{side}.toml") for side in sides):
        return None
    from pathlib import Path

    from envlock import disk
    from envlock.errors import EnvlockError
    from envlock.layout import Layout
    from envlock.workflows import diff

    try:
        comparisons = (diff.between(Layout(Path(project), Path(home)), *sides),)
        text = formats.render(comparisons, form, _paint if _coloured(sys.stdout) else _as_it_is)
        if "-o" in asked:
            disk.write_atomically(asked["-o"], text if text.endswith("\n") else f"{text}\n")
            sys.stderr.write(f"wrote {asked['-o']}\n")
        else:
            sys.stdout.write(f"{text}\n")
    except EnvlockError:
        return None  # the full command says it in full
    return 0


def _as_it_is(text: str, _: str) -> str:
    return text


_COLOURS = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "cyan": 36, "bright_black": 90}  # ECMA-48 SGR


def _paint(text: str, colour: str) -> str:
    return f"\033[{_COLOURS[colour]}m{text}\033[0m"
