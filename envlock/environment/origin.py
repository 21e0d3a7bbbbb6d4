"""Who builds when and from what: user, host, and the project's commit read from its .git files (no git is run)."""

from __future__ import annotations

import os
import time


def of(project: str | os.PathLike[str]) -> dict[str, str]:
    """Return `user`, `host` and, inside git, `commit`."""
    found = {"user": user(), "host": os.uname().nodename}
    commit = head_commit(project)
    if commit:
        found["commit"] = commit
    return found


def now() -> str:
    """Return the time as every record of envlock writes it: UTC, ISO 8601, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def user() -> str:
    """Return the name of who runs this, or the number."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):  # in the order of getpass.getuser
        if os.environ.get(variable):
            return os.environ[variable]
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, OSError):
        return str(os.getuid())


def head_commit(project: str | os.PathLike[str]) -> str:
    """Return the commit checked out at or above a folder, or nothing outside git (gitrepository-layout(5))."""
    folder = os.path.abspath(project)
    while True:
        found = _commit(f"{folder}/.git", folder)
        above = os.path.dirname(folder)
        if found is not None or above == folder:
            return found or ""
        folder = above


def _commit(git: str, folder: str) -> str | None:
    """Return the commit that a `.git` has checked out, nothing when it cannot be read, None when it is none."""
    try:
        if os.path.isfile(git):
            git = os.path.join(folder, _text(git).removeprefix("gitdir:").strip())
        if not os.path.isdir(git):
            return None
        head = _text(f"{git}/HEAD")
        if not head.startswith("ref:"):
            return head
        ref = head.removeprefix("ref:").strip()
        common = os.path.join(git, _text(f"{git}/commondir")) if os.path.isfile(f"{git}/commondir") else git
        for base in (git, common):
            if os.path.isfile(f"{base}/{ref}"):
                return _text(f"{base}/{ref}")
        packed = _text(f"{common}/packed-refs") if os.path.isfile(f"{common}/packed-refs") else ""
        return next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {ref}")), "")
    except (OSError, ValueError):
        return ""


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
