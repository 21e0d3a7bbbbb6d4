"""What a hook is: a name, what it is for, and the files it consists of. Values only; nothing here touches a disk."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass


class Unwritable(ValueError):
    """A word cannot be written in the format a hook needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a hook is to start, and where things lie; every path is absolute."""

    name: str
    project: str
    home: str
    shim: str
    prefix: str
    """The environment through `current`, which follows every sync."""
    envlock: tuple[str, ...]
    """The words that start envlock itself, without its PATH: `... -I -m envlock -C PROJECT`."""
    folder: str
    """Where the files will lie."""
    cwd: str
    gpus: int = 0
    """How many the profile declares; 0 for none."""
    no_gpu: bool = False
    each_rank: bool = False
    """Start every rank through the shim as well."""
    user: str | None = None
    command: tuple[str, ...] = ()

    @property
    def launch(self) -> tuple[str, ...]:
        """Return the words that launch something in the environment: the shim and its options."""
        return (self.shim, "--no-gpu") if self.no_gpu else (self.shim,)

    @property
    def verify(self) -> tuple[str, ...]:
        """Return the words that verify the environment and exit non-zero when it must not be used."""
        return (*self.envlock, "verify", self.name, *(("--no-gpu",) if self.no_gpu else ()))

    @property
    def moved(self) -> bool:
        """Tell whether the store lies outside the project, where only ENVLOCK_HOME finds it."""
        return self.home != f"{self.project}/.envlock"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a hook; `path` is relative to the folder the hook is written to."""

    path: str
    text: str
    executable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of hook."""

    name: str
    purpose: str
    files: Callable[[Target], tuple[File, ...]]
    """Raises Unwritable."""
    after: str
    """What to do with the files: shown once they are written. `{path}`, `{folder}` and `{name}` are filled in."""
    needs: str | None = None
    """A package without which the environment cannot serve this hook."""
    takes_command: bool = False
    takes_profile: bool = True
    several: bool = False
    """It is more than one file, so it is written to a folder."""


def words(argv: tuple[str, ...]) -> str:
    """Return one line of POSIX shell that means exactly these words."""
    return shlex.join(argv)


def ranks(target: Target) -> int:
    """Return how many processes a launcher starts on one machine: one a GPU."""
    return target.gpus or 1


def header(target: Target, kind: str, mark: str = "#") -> str:
    """Return the first comment lines of a file."""
    return f"{mark} Profile {target.name}, started through envlock. Written by: envlock hook {kind} {target.name}\n"
