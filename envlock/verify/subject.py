"""What the static checks judge: an environment's facts beside what was declared, locked and sealed. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from envlock.declare.profile import Profile
from envlock.environment.inventory import Drift
from envlock.environment.seal import Seal
from envlock.lock.document import Lock
from envlock.verify.facts import Facts
from envlock.verify.interpreters import Interpreter
from envlock.verify.permissions import Fault


class PathFile(NamedTuple):
    """A `.pth` file of site-packages: lines in it run code or add folders at every start of the interpreter."""

    name: str
    lines: tuple[str, ...]
    """The lines that do something, as they stand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What lies around an environment or changes without its files being changed; read at every verification."""

    path_files: tuple[PathFile, ...] = ()
    startup: tuple[str, ...] = ()
    """`sitecustomize` and `usercustomize` modules an interpreter of it would import, by path."""
    leftovers: tuple[str, ...] = ()
    """`~name` folders that an interrupted uninstall left."""
    system_site: bool = False
    """pyvenv.cfg lets the base interpreter's packages in."""
    user_packages: tuple[str, ...] = ()
    """Packages of the GPU stack in the user's own site-packages of this Python, by path."""
    python_version: str = ""
    """pyvenv.cfg's full version; empty outside a venv."""
    base: str = ""
    """The base interpreter's executable, as pyvenv.cfg or the link in bin/ tells; empty when it is gone."""
    interpreters: tuple[Interpreter, ...] = ()
    """Every name in bin/ that starts a Python."""
    headers: bool = True
    """Python.h of that interpreter is there."""
    compiler: str = ""
    """The C compiler Triton would use, by path; empty for none."""
    glibc: str = ""
    """This machine's glibc, `2.36`."""
    machine: str = ""
    """This machine's CPU as `uname -m` calls it, `x86_64`."""
    linked: frozenset[str] = frozenset()
    """Of the files that differ from the seal, those with another name elsewhere (hard links), below the prefix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One environment under judgement. A foreign environment has no profile, lock or seal."""

    prefix: str
    site: str
    """Its site-packages, absolute."""
    profile: Profile | None
    lock: Lock | None
    lock_digest: str | None
    seal: Seal | None
    facts: Facts
    around: Surroundings
    drift: tuple[Drift, ...] | None
    """Differences from the seal; None when there is no seal to differ from."""
    seal_edited: tuple[str, ...] = ()
    """The seal's own files that are not as they were written."""
    faults: tuple[Fault, ...] = ()
    """Files and folders whose permissions are wrong: of the few that matter most, with `deep` of all."""
    real: str = ""
    """The prefix with links resolved, as scripts may name it; empty: the same."""
    deep: bool = False
    driver: str | None = None
    """The driver to judge PTX by, when it is known."""

    @property
    def capability(self) -> str | None:
        """The compute capability that was declared."""
        return None if self.profile is None or self.profile.gpu is None else self.profile.gpu.compute_capability
