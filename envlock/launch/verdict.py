"""A passed static verification, remembered for exactly what it looked at, so that asking again costs a look at files.

`cache/unchanged/verify/` keeps what was said, and beside it what it was said of: the identities of lock, profiles,
seal, base interpreter and of envlock's own modules, and what was found outside the environment. While all of that is
the same and every file and folder is as stamped (environment/stamp.py), the checks would find the same again. A verdict
that failed is never remembered. It can be deleted at any time. Standard library only.
"""

from __future__ import annotations

import os
import sys

from envlock import __version__
from envlock.environment import stamp
from envlock.launch import ticket, unchanged
from envlock.verify import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERB = "verify"


def kind(*, only_static: bool) -> str:
    """Return what tells the two ways to ask apart: an answer without `--tier` names the tiers it left out."""
    return "static" if only_static else "all"


def recall(found: tuple[str, str], name: str, asked: str) -> dict[str, str] | None:
    """Return what was said, by form, of a verification that would pass just so again; None when that is not sure."""
    project, home = found
    kept = unchanged.kept(home, VERB, (name, asked))
    if kept is None or not unchanged.holds(kept, project):
        return None
    try:
        if kept["around"] != _around(kept["prefix"], kept["minor"], os.environ) or not stamp.unchanged(kept["prefix"]):
            return None
        said: dict[str, str] = kept["said"]
    except (KeyError, OSError):
        return None
    return said


class Verdict:
    """What a verification is about to look at; taken before it, so that no change in between is missed."""

    def __init__(self, found: tuple[str, str], name: str, *, prefix: str, minor: str, files: Iterable[str]) -> None:
        """`minor` is the environment's Python, `3.11`; `files` are lock, profiles, seal and interpreter.

        Raises OSError when the prefix cannot be looked at.
        """
        self._project, self._home = found
        self._name = name
        self._prefix = prefix
        self._minor = minor
        self._files = {path: ticket.identity(path) for path in files}
        self._links = {f"{self._home}/envs/{name}/current": os.path.basename(prefix)}
        self._around = _around(prefix, minor, os.environ)

    def remember(self, asked: str, said: Mapping[str, str]) -> None:
        """Keep what was said of it, by form. A store that cannot be written is left as it is."""
        modules = [getattr(module, "__file__", None) for key, module in sys.modules.items() if key[:7] == "envlock"]
        own = {path: ticket.identity(path) for path in modules if path}
        kept = {
            "project": self._project,
            "files": self._files | own,
            "links": self._links,
            "around": self._around,
            "prefix": self._prefix,
            "minor": self._minor,
            "said": dict(said),
        }
        unchanged.keep(self._home, VERB, (self._name, asked), kept)


def _around(prefix: str, minor: str, variables: Mapping[str, str]) -> dict[str, object]:
    """Return what the static tier looks at and the stamp does not tell, as marshal can keep it. Raises OSError."""
    base = os.path.realpath(f"{prefix}/bin/python")
    return {
        "envlock": __version__,
        "prefix": os.path.realpath(prefix),
        "base": base,
        "modes": outside.modes(prefix, minor),
        "user": outside.user_packages(minor),
        "headers": outside.headers(base, minor),
        "compiler": outside.compiler(variables),
        "glibc": outside.glibc(),
        "driver": ticket.first_line(ticket.DRIVER),
    }
