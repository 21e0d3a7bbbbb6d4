"""From argv in a place to argv here: each hop adds its words and exactly the quoting its far side takes off again.

Pure. Only ssh hands its far side a line that a shell reads; lxc-attach and pct hand on words as they are. The caller's
environment stops at the first hop: lxc-attach and pct are told to clear it, and inside it begins empty (`env -i`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BASE_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}

# $1: folder. Then the command: replaced, so that no shell stays between. 127 and 126 are the shell's own.
_ENTER = 'cd -- "$1" || exit 125; shift; exec "$@"'

# $1: a file that will name the process, $2: a file of variables or "". The outer shell stays to turn a death by signal
# into 128+n (ssh would say 255) and to remove the file. The terminal's own signals must not end it before its child,
# and its own word on that death (`Terminated`) is kept out of the command's stderr.
_SUPERVISE = (
    'trap : HUP INT QUIT TERM; note=$1 vars=$2; shift 2; mkdir -p -m 700 "${note%/*}"; exec 3>&2 2>/dev/null; '
    'sh -c \'exec 2>&3 3>&-; echo $$ >"$1"; if [ -n "$2" ]; then . "$2"; rm -f "$2"; fi; shift 2; exec "$@"\' '
    'sh "$note" "$vars" "$@"; code=$?; rm -f "$note"; exit $code'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ssh:
    """A hop to another machine; its far side is a login shell."""

    destination: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"ssh {self.destination}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LxcAttach:
    """A hop into a running plain LXC container."""

    name: str
    lxcpath: str | None = None

    def __str__(self) -> str:
        return f"lxc-attach {self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pct:
    """A hop into a running Proxmox container."""

    id: str

    def __str__(self) -> str:
        return f"pct exec {self.id}"


Hop = Ssh | LxcAttach | Pct


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What is to run at the end of the hops."""

    argv: tuple[str, ...]
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment inside, beside PATH, HOME and LANG; it can be seen in the process table on the way."""
    note: str | None = None
    """A file inside that names the running process, so that a signal can be sent after it."""
    variables: str | None = None
    """A shell file inside with further variables; read once and removed. For what the process table must not show."""


def words(command: Command) -> tuple[str, ...]:
    """Return the argv that gives `command` its folder and environment, to be run at the end of the hops."""
    environment = {**BASE_ENVIRONMENT, **command.env}
    inner = ("sh", "-c", _ENTER, "sh", command.cwd, *command.argv)
    if command.note is not None or command.variables is not None:
        note = command.note or "/run/envlock/unsupervised"
        inner = ("sh", "-c", _SUPERVISE, "sh", note, command.variables or "", *inner)
    return ("env", "-i", *(f"{name}={value}" for name, value in environment.items()), *inner)


def across(hops: Sequence[Hop], argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:
    """Return the local argv that runs `argv` behind `hops`, the first of which starts here."""
    result = tuple(argv)
    for hop in reversed(hops):
        result = (*_opening(hop, terminal=terminal), *_far_side(hop, result))
    return result


def _opening(hop: Hop, *, terminal: bool) -> tuple[str, ...]:
    match hop:
        case Ssh():
            return ("ssh", *hop.options, "-tt" if terminal else "-T", "--", hop.destination)
        case LxcAttach():
            path = () if hop.lxcpath is None else ("-P", hop.lxcpath)
            return ("lxc-attach", "-n", hop.name, *path, "--clear-env", "--")
        case Pct():
            return ("pct", "exec", hop.id, "--keep-env", "0", "--")


def _far_side(hop: Hop, argv: tuple[str, ...]) -> tuple[str, ...]:
    return (shlex.join(argv),) if isinstance(hop, Ssh) else argv


def exports(variables: Mapping[str, str]) -> str:
    """Return shell lines that export `variables`, whatever is in their values."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
