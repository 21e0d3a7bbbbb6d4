"""What runs or is found before the program: `.pth` files, startup modules, other package folders, scripts. Pure."""

from __future__ import annotations

import posixpath

from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.subject import PathFile, Subject

# Written by the tools that make environments; they do what their names say. Source: virtualenv, setuptools.
_KNOWN = frozenset({"_virtualenv.pth", "distutils-precedence.pth"})


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge what an interpreter of this environment picks up by itself."""
    return (_path_files(subject), _modules(subject), _leftovers(subject), _outside(subject), _scripts(subject))


def _path_files(subject: Subject) -> Check:
    name = "startup.path-files"
    added = {item.path.rpartition("/")[2] for item in subject.drift or () if item.kind in ("added", "changed")}
    known = (set(subject.facts.path_files) - added) | (set() if subject.seal else _KNOWN)
    stray = [item for item in subject.around.path_files if item.name not in known and _acts(item)]
    if not stray:
        return good(name, found=listed([item.name for item in subject.around.path_files]) or "none")
    first = stray[0]
    line = first.lines[0] if first.lines else "empty"
    return bad(
        name,
        status="fail" if subject.seal else "warn",
        expected="only .pth files that were sealed" if subject.seal else "only .pth files that a package brought",
        found=f"{listed([item.name for item in stray])}: {line[:100]}",
        where=f"{subject.site}/{first.name}",
        remedy=f"rm {subject.site}/{first.name}" if subject.seal else "look at it; it runs at every start of Python",
    )


def _acts(item: PathFile) -> bool:
    return bool(item.lines) or not item.name.endswith("-nspkg.pth")


def _modules(subject: Subject) -> Check:
    name = "startup.modules"
    if not subject.around.startup:
        return good(name, found="no sitecustomize, no usercustomize")
    return bad(
        name,
        status="warn",
        expected="no module that Python imports by itself at its start",
        found=listed(list(subject.around.startup)),
        where=f"{subject.site}/{subject.around.startup[0]}",
        remedy="whatever it changes, it changes for every program: remove it",
    )


def _leftovers(subject: Subject) -> Check:
    name = "startup.leftovers"
    if not subject.around.leftovers:
        return good(name, found="none")
    return bad(
        name,
        expected="no remains of interrupted uninstalls",
        found=listed(list(subject.around.leftovers)),
        where=f"{subject.site}/{subject.around.leftovers[0]}",
        remedy="pip renamed these and never finished: build the environment anew",
    )


def _outside(subject: Subject) -> Check:
    name = "startup.other-packages"
    around = subject.around
    if not around.system_site:
        return good(name, found="the environment's own packages alone")
    harmful = bool(around.user_packages)
    return bad(
        name,
        status="fail" if harmful else "warn",
        expected="an environment that sees its own packages alone",
        found=listed(list(around.user_packages))
        if harmful
        else "the base interpreter's and the user's packages are let in",
        where=f"{subject.prefix}/pyvenv.cfg",
        remedy="include-system-site-packages = false, and PYTHONNOUSERSITE=1 (envlock run sets it)",
    )


def _plain(interpreter: str) -> str:
    """Return an interpreter's path without `..`, which would lead out of the folder it seems to lie in."""
    return interpreter if interpreter.startswith("$") else posixpath.normpath(interpreter)


def _scripts(subject: Subject) -> Check:
    name = "startup.scripts"
    if not subject.facts.scripts:
        return skipped(name, "no console scripts here")
    own = f"{subject.prefix}/bin/"
    # `$(dirname ...)`: envlock's own pip finds the interpreter that lies beside it
    either = (own, f"{subject.real or subject.prefix}/bin/", "$(dirname")
    wrong = [item for item in subject.facts.scripts if not _plain(item[1]).startswith(either)]
    if not wrong:
        return good(name, found=f"{len(subject.facts.scripts)} console scripts start this environment's Python")
    return bad(
        name,
        expected=f"console scripts that start {own}python",
        found=listed([f"{script} starts {interpreter}" for script, interpreter in wrong]),
        where=f"{subject.prefix}/{wrong[0][0]}",
        remedy="the environment was moved or copied: build it where it is to stay",
    )
