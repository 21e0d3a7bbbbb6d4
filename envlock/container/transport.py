"""Carry commands, files and signals to the end of a chain of hops. Effects; what the words are is `hops`' business."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import stat
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from envlock import system
from envlock.container.hops import Command, Hop, LxcAttach, Ssh, across, exports, words
from envlock.errors import TransportError

_TIMED_OUT = 124  # what timeout(1) exits with
CONNECT_SECONDS = 15
"""How long a hop may take to answer at all."""
_SIGNAL = (
    'n=0; while [ ! -s "$1" ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done; '
    '[ -s "$1" ] && kill -s "$2" "$(cat "$1")"'
)
# $1 target (a link), $2 the tree's own name beside it. Unpacked beside, switched by rename, the one before removed.
_UNPACK = (
    'set -e; umask 022; d=${1%/*}; mkdir -p "$d"; if [ -d "$1" ] && [ ! -L "$1" ]; then '
    'echo "$1 is a folder that envlock did not push" >&2; exit 1; fi; old=$(readlink "$1" || :); '
    'find "$d" -maxdepth 1 -name ".${1##*/}.*.part.*" -mmin +60 -exec rm -rf {} +; '
    'p="$d/$2.part.$$"; mkdir "$p"; trap \'rm -rf "$p"\' EXIT; tar -x -p --numeric-owner -C "$p"; '
    '[ -d "$d/$2" ] || mv -T "$p" "$d/$2"; ln -s "$2" "$d/.link.$$.part"; mv -T "$d/.link.$$.part" "$1"; '
    'if [ -n "$old" ] && [ "$old" != "$2" ]; then rm -rf "${d:?}/$old"; fi'
)
_WRITE = (
    'set -e; d=${1%/*}; mkdir -p "$d"; t="$d/.envlock.$$.part"; trap \'rm -f "$t"\' EXIT; '
    '(umask 077; cat >"$t"); chmod "$2" "$t"; mv -T "$t" "$1"'
)


class Transport:
    """One way into a place: the hops, and the environment every command gets there."""

    def __init__(self, hops: Sequence[Hop], *, env: Mapping[str, str] | None = None) -> None:
        self.hops = tuple(hops)
        self.env = dict(env or {})

    def __str__(self) -> str:
        return " > ".join(str(hop) for hop in self.hops) or "here"

    def run(
        self,
        argv: Sequence[str],
        *,
        input_text: str | None = None,
        timeout: float | None = 120,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
    ) -> system.Completed:
        """Run a command there to its end and return what it left, whatever its exit status.

        Raises TransportError when a hop failed (not when the command did) or nothing ended within `timeout` seconds.
        """
        # Ended over there: a killed ssh or lxc-attach leaves its far end running, and that holds our pipes open.
        limit = () if timeout is None or not self.hops else ("timeout", "-k", "5", f"{timeout:g}")
        command = Command(argv=(*limit, *argv), cwd=cwd, env={**self.env, **(env or {})})
        patience = None if timeout is None else timeout + (CONNECT_SECONDS if limit else 0)
        try:
            done = system.run(across(self.hops, words(command)), input_text=input_text, timeout=patience)
        except system.TimedOut as error:
            self.check()
            raise self._no_end(argv, timeout, error.stderr) from error
        if limit and done.returncode == _TIMED_OUT:
            raise self._no_end(argv, timeout, done.stderr)
        if done.returncode in (1, 255):
            self.check()
        return done

    def _no_end(self, argv: Sequence[str], seconds: float | None, said: str) -> TransportError:
        return TransportError(f"{argv[0]} did not end within {seconds:g} s", where=str(self), details=_tail(said))

    def need(
        self, argv: Sequence[str], *, what: str, input_text: str | None = None, timeout: float | None = 120
    ) -> str:
        """Run a command that has to succeed and return its stdout. Raises TransportError with what it said."""
        done = self.run(argv, input_text=input_text, timeout=timeout)
        if done.returncode != 0:
            raise TransportError(
                f"{what} failed (exit {done.returncode})", where=str(self), details=_tail(done.stderr or done.stdout)
            )
        return done.stdout

    def call(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        secret: Mapping[str, str] | None = None,
    ) -> int:
        """Run a command there on the caller's own terminal, pipes and signals; return its exit status.

        `secret` variables travel in a file of mode 600 and never in a process table. Raises TransportError when a hop
        failed, naming it.
        """
        token = uuid.uuid4().hex
        note, variables = f"/run/envlock/{token}", None
        if secret:
            variables = f"/run/envlock/{token}.env"
            self.write(variables, exports(secret), mode="600")
        command = Command(argv=tuple(argv), cwd=cwd, env={**self.env, **(env or {})}, note=note, variables=variables)
        over_ssh = bool(self.hops) and isinstance(self.hops[0], Ssh)
        foreground = sys.stdin is not None and os.isatty(0)
        terminal = foreground and os.isatty(1)
        if terminal and "TERM" in os.environ:
            command = Command(
                argv=command.argv,
                cwd=cwd,
                env={"TERM": os.environ["TERM"], **command.env},
                note=note,
                variables=variables,
            )
        code = system.relay(
            across(self.hops, words(command), terminal=terminal),
            forward=lambda number: self._forward(note, number),
            foreground=foreground,
            interrupts=terminal or not over_ssh,
        )
        if code in (1, 255):
            self.check()
        return code

    def _forward(self, note: str, number: int) -> None:
        name = signal.Signals(number).name.removeprefix("SIG")
        self.run(("sh", "-c", _SIGNAL, "sh", note, name), timeout=CONNECT_SECONDS)

    def check(self) -> None:
        """Go through the hops one after another. Raises TransportError naming the first that does not carry."""
        for count in range(1, len(self.hops) + 1):
            hops = self.hops[:count]
            try:
                done = system.run(across(hops, ("true",)), timeout=CONNECT_SECONDS)
            except system.TimedOut as error:
                raise TransportError(
                    f"hop {count} of {len(self.hops)}, {hops[-1]}: no answer within {CONNECT_SECONDS} s",
                    where=str(self),
                    details=_tail(error.stderr),
                ) from error
            if done.returncode != 0:
                raise TransportError(
                    f"hop {count} of {len(self.hops)}, {hops[-1]}: failed (exit {done.returncode})",
                    where=str(self),
                    details=_tail(done.stderr),
                    hint=_mend(hops[-1]),
                )

    def write(self, path: str, content: str, *, mode: str = "644") -> None:
        """Write a file there: beside, then renamed over. Raises TransportError."""
        self.need(("sh", "-c", _WRITE, "sh", path, mode), input_text=content, what=f"writing {path}")

    def read(self, path: str) -> str | None:
        """Return the text of a file there, or None when it is not there. Raises TransportError."""
        done = self.run(("cat", path))
        return done.stdout if done.returncode == 0 else None

    def push(self, folder: Path, target: str, *, digest: str | None = None) -> bool:
        """Bring a tree there as a stream with its modes, switched to in one rename; tell whether it had to be sent.

        `target` becomes a link to the tree, which carries its digest in its name. Raises TransportError.
        """
        name = f".{target.rpartition('/')[2]}.{digest or tree_digest(folder)}"
        if self.run(("readlink", target)).stdout.strip() == name:
            return False
        source = ("tar", "-c", "--numeric-owner", "--owner=0", "--group=0", "-C", str(folder), ".")
        self.stream(source, ("sh", "-c", _UNPACK, "sh", target, name), what=f"pushing {folder.name} to {target}")
        return True

    def stream(self, source: Sequence[str], sink: Sequence[str], *, what: str) -> None:
        """Run `source` here and pipe its output into `sink` there. Raises TransportError with what both said."""
        sent, received = system.pipe(source, across(self.hops, words(Command(argv=tuple(sink)))))
        if received.returncode != 0 or sent.returncode != 0:
            self.check()
            raise TransportError(f"{what} failed", where=str(self), details=_tail(received.stderr + sent.stderr))


def ssh(destination: str) -> Ssh:
    """Return the hop to a host: one connection kept for a minute, no answer within seconds is an error.

    ENVLOCK_SSH_CONFIG names another configuration file for ssh than the user's.
    """
    config = os.environ.get("ENVLOCK_SSH_CONFIG")
    options = ["-F", config] if config else []
    if (folder := sockets()) is not None:
        options += ["-o", "ControlMaster=auto", "-o", f"ControlPath={folder}/envlock-%C", "-o", "ControlPersist=60"]
    options += ["-o", f"ConnectTimeout={CONNECT_SECONDS - 5}", "-o", "ServerAliveInterval=15"]
    if not os.isatty(0):
        options += ["-o", "BatchMode=yes"]
    return Ssh(destination=destination, options=tuple(options))


def sockets() -> Path | None:
    """Return the folder for ssh's control sockets, the user's alone; None when there is no such folder to be had."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) if runtime else Path(tempfile.gettempdir()) / f"envlock-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if private and len(str(folder)) < 50 else None  # a socket's path holds 107 bytes; %C takes 40


def tree_digest(folder: Path) -> str:
    """Return sixteen hex digits over every path, mode and content below `folder`."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode & 0o777
        total.update(f"{path.relative_to(folder).as_posix()}\0{mode:o}\0".encode(errors="surrogateescape"))
        if path.is_symlink():
            total.update(os.fsencode(os.readlink(path)))
        elif path.is_file():
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def _tail(text: str, lines: int = 12) -> tuple[str, ...]:
    return tuple(text.strip().splitlines()[-lines:])


def _mend(hop: Hop) -> str:
    match hop:
        case Ssh():
            return f"try `ssh {hop.destination} true` by hand: a key, a host key, a name or a firewall"
        case LxcAttach():
            return f"`envlock container start {hop.name}` when it is not running; lxc-attach needs root"
        case _:
            return f"`pct status {hop.id}` on the Proxmox host tells whether it runs; pct needs root"
