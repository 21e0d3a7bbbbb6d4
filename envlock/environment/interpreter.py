"""Finding the Python a profile asks for, on machines whose PATH cannot be trusted.

A pyenv shim that exits 127 makes `uv python find` fail outright; here a candidate that does not answer is put aside
with its reason, and the next is asked. Nothing is chosen silently: the choice says why.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock import system
from envlock.errors import InterpreterNotFound, ToolMissing

_ASK = (
    "import sys,json,sysconfig;print(json.dumps([sys.implementation.name,'.'.join(map(str,sys.version_info[:3])),"
    "sys.base_prefix,sys.platform,sysconfig.get_platform(),sys.abiflags,sys.version_info[3]]))"
)
_PATIENCE = 20.0  # seconds; a cold interpreter on a network disk takes a few


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A base interpreter that answered."""

    path: Path
    """Real path of its executable, never a venv's."""
    version: str
    """Full, `3.11.7`."""
    reason: str = ""
    """Why this one was chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """A candidate that was put aside, and why."""

    path: str
    reason: str


def find(wanted: str, environ: Mapping[str, str]) -> Interpreter:
    """Return a CPython for `3.11` (any micro) or `3.11.7` (that one).

    Order: an exact micro version, then envlock's own interpreter, then PATH, then where pyenv, uv and Debian put
    theirs. ENVLOCK_PYTHON_3_11 names one outright. Raises InterpreterNotFound, listing what was looked at.
    """
    named = environ.get(f"ENVLOCK_PYTHON_{'_'.join(wanted.split('.')[:2])}")
    rejected: list[Rejected] = []
    if named:
        answer = ask(Path(named))
        if isinstance(answer, Interpreter) and _fits(answer.version, wanted):
            return _because(answer, f"named by ENVLOCK_PYTHON_{'_'.join(wanted.split('.')[:2])}")
        reason = answer.reason if isinstance(answer, Rejected) else f"is Python {answer.version}"
        raise InterpreterNotFound(
            f"{named} {reason}", expected=f"Python {wanted}", hint="unset that variable, or mend it"
        )
    seen: set[str] = set()
    for origin, candidate in _candidates(wanted, environ):
        real = os.path.realpath(candidate)
        if real in seen or not os.path.exists(candidate):
            continue
        seen.add(real)
        answer = _own() if real == os.path.realpath(_own().path) else ask(candidate)
        if isinstance(answer, Rejected):
            rejected.append(answer)
        elif _fits(answer.version, wanted):
            return _because(answer, origin)
        else:
            rejected.append(Rejected(path=str(candidate), reason=f"is Python {answer.version}"))
    minor = ".".join(wanted.split(".")[:2])
    raise InterpreterNotFound(
        f"no Python {wanted} on this machine",
        expected=f"a CPython {wanted}",
        found="; ".join(f"{item.path} {item.reason}" for item in rejected[:6]) or "none at all",
        hint=f"apt-get install python{minor}-venv, or `uv python install {wanted}`, "
        f"or set ENVLOCK_PYTHON_{minor.replace('.', '_')}=/path/to/python{minor}",
    )


def _because(interpreter: Interpreter, reason: str) -> Interpreter:
    return Interpreter(path=interpreter.path, version=interpreter.version, reason=reason)


def _fits(version: str, wanted: str) -> bool:
    return version == wanted or (wanted.count(".") == 1 and version.startswith(f"{wanted}."))


def _own() -> Interpreter:
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Interpreter(path=Path(os.path.realpath(base)), version=".".join(map(str, sys.version_info[:3])))


def _candidates(wanted: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    minor = ".".join(wanted.split(".")[:2])
    own = _own()
    if _fits(own.version, wanted):
        yield "envlock's own interpreter", own.path
    home = Path(environ.get("HOME", "/"))
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    managed = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "uv" / "python"
    if wanted.count(".") == 2:
        yield "pyenv's exact version", pyenv / wanted / "bin" / f"python{minor}"
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        # A launcher that only dispatches is skipped: what it would start is found where it really lies.
        if folder and os.path.isabs(folder) and not folder.endswith("/shims"):
            yield f"python{minor} on PATH", Path(folder) / f"python{minor}"
            yield "python3 on PATH", Path(folder) / "python3"
    for name, root in (("pyenv", pyenv), ("uv", managed)):
        for version in sorted(root.glob(f"*{minor}*"), key=_micro, reverse=True) if root.is_dir() else ():
            yield f"{name}'s {version.name}", version / "bin" / f"python{minor}"
    for folder in ("/usr/bin", "/usr/local/bin", "/opt/python/bin"):
        yield f"{folder}/python{minor}", Path(folder) / f"python{minor}"


def _micro(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.replace("-", ".").split(".") if part.isdecimal())


def ask(candidate: Path) -> Interpreter | Rejected:
    """Return what an executable says of itself, or why it is none to build on. Starts it once, isolated."""
    try:
        done = system.run([candidate, "-I", "-S", "-c", _ASK], env={"PATH": os.defpath}, timeout=_PATIENCE)
    except ToolMissing:
        return Rejected(path=str(candidate), reason="cannot be executed")
    except system.TimedOut:
        return Rejected(path=str(candidate), reason="does not answer")
    if done.returncode != 0:
        return Rejected(path=str(candidate), reason=f"exits {done.returncode}: {_first_line(done.stderr)}")
    try:
        name, version, base, platform, _, flags, level = json.loads(done.stdout)
    except ValueError:
        return Rejected(path=str(candidate), reason="answers nonsense")
    if name != "cpython" or platform != "linux":
        return Rejected(path=str(candidate), reason=f"is {name} on {platform}")
    if level != "final" or "t" in flags:
        return Rejected(path=str(candidate), reason=f"is a {level} or free-threaded build")
    minor = ".".join(version.split(".")[:2])
    real = Path(base) / "bin" / f"python{minor}"
    return Interpreter(path=Path(os.path.realpath(real if real.exists() else candidate)), version=version)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:120] if lines else "no word"
