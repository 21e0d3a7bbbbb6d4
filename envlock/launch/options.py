"""The words of `envlock run`: one table, read by the fast path and by the command line alike.

`run [options] NAME [options] [--] COMMAND...`: options end at `--` or at the first word of the command.
Standard library only: the fast path imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# (option, metavariable or None for a flag, may be repeated, help)
TABLE: tuple[tuple[str, str | None, bool, str], ...] = (
    ("--no-gpu", None, False, "Launch without a GPU: no driver and no GPU is asked for. Also: ENVLOCK_NO_GPU=1."),
    ("--gpus", "LIST", False, "Only these GPUs, `0-4` or `0,2` or UUIDs: set by UUID, and held until the end."),
    ("--sync", None, False, "Sync first if the environment is missing or stale."),
    ("--profile-env", "KEY=VALUE", True, "Set a variable for this launch; wins over the profile. Repeatable."),
    ("--cwd", "DIR", False, "Run the command in this folder."),
    ("--log", "FILE", False, "Append one JSON line about this launch. Also: ENVLOCK_LOG=FILE."),
    ("--in", "NAME", False, "Run in this container (`here`: not in the one the profile names)."),
    ("--explain-env", None, False, "Tell on stderr what became of each variable, and why."),
    ("--dry-run", None, False, "Verify, then print the exact command and environment instead of running."),
    ("--json", None, False, "With --dry-run: print them as JSON."),
)
_KINDS = {option: (metavar, many) for option, metavar, many, _ in TABLE}


class BadWords(ValueError):
    """The words do not make a launch."""


class Request:
    """What was asked for."""

    __slots__ = ("command", "flags", "name", "values")

    def __init__(
        self, name: str, command: tuple[str, ...], flags: frozenset[str], values: dict[str, list[str]]
    ) -> None:
        self.name = name
        self.command = command
        self.flags = flags
        self.values = values

    def has(self, flag: str) -> bool:
        """Tell whether a flag was given."""
        return flag in self.flags

    def value(self, option: str) -> str | None:
        """Return the last value of an option, or None."""
        given = self.values.get(option)
        return given[-1] if given else None

    @property
    def plain(self) -> bool:
        """Tell whether nothing but --no-gpu was asked for."""
        return not self.values and not self.flags - {"--no-gpu"}


def parse(words: Sequence[str]) -> Request:
    """Return what the words after `run` ask for. Raises BadWords."""
    flags: set[str] = set()
    values: dict[str, list[str]] = {}
    name: str | None = None
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            if name is not None:
                break
            name, at = word, at + 1
            continue
        option, equals, value = word.partition("=")
        if option not in _KINDS:
            raise BadWords(f"no such option: {option}")
        metavar, many = _KINDS[option]
        at += 1
        if metavar is None:
            if equals:
                raise BadWords(f"{option} takes no value")
            flags.add(option)
            continue
        if not equals:
            if at >= len(words):
                raise BadWords(f"{option} needs {metavar}")
            value, at = words[at], at + 1
        if option in values and not many:
            raise BadWords(f"{option} is given twice")
        values.setdefault(option, []).append(value)
    if name is None:
        raise BadWords("which profile? envlock run NAME -- COMMAND")
    for pair in values.get("--profile-env", ()):
        if not pair.partition("=")[1] or not pair.partition("=")[0].isidentifier():
            raise BadWords(f"--profile-env takes KEY=VALUE, not {pair!r}")
    if "--gpus" in values and "--no-gpu" in flags:
        raise BadWords("--gpus and --no-gpu exclude each other")
    if not words[at:]:
        raise BadWords(f"which command? envlock run {name} -- COMMAND")
    return Request(name, tuple(words[at:]), frozenset(flags), values)
