"""Reading what lies around an environment, at every verification. Effects: a few folders and pyvenv.cfg, no walk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from envlock.environment.digests import read_regular
from envlock.environment.inventory import Drift
from envlock.environment.seal import FOLDER
from envlock.verify import outside
from envlock.verify.interpreters import interpreters
from envlock.verify.subject import PathFile, Surroundings


def read_surroundings(prefix: Path, site: Path, drift: Iterable[Drift]) -> Surroundings:
    """Return what an interpreter of this environment would meet beside the environment's own packages."""
    names = sorted(os.listdir(site))
    config = _config(prefix / "pyvenv.cfg")
    minor = site.parent.name.removeprefix("python")
    base = _base(prefix, config)
    sealed = _sealed_at(prefix)
    return Surroundings(
        path_files=tuple(PathFile(name, _lines(site / name)) for name in names if name.endswith(".pth")),
        startup=tuple(
            name for name in names if name.split(".", 1)[0] in ("sitecustomize", "usercustomize")
        ),  # any suffix
        leftovers=tuple(name for name in names if name.startswith("~")),
        system_site=config.get("include-system-site-packages", "false").lower() == "true" or not config,
        user_packages=outside.user_packages(minor),
        python_version=config.get("version_info", config.get("version", "")),
        base=base,
        interpreters=tuple(interpreters(os.fspath(prefix), minor, config.get("home", ""))),
        headers=outside.headers(base, minor),
        compiler=outside.compiler(os.environ),
        glibc=outside.glibc(),
        machine=os.uname().machine,
        linked=frozenset(
            item.path for item in drift if item.kind == "changed" and _edited_through_link(prefix / item.path, sealed)
        ),
    )


def _config(path: Path) -> dict[str, str]:
    try:
        lines = read_regular(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _lines(path: Path) -> tuple[str, ...]:
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))


def _base(prefix: Path, config: dict[str, str]) -> str:
    for name in ("python", "python3"):
        link = prefix / "bin" / name
        if link.exists():
            return os.path.realpath(link)
    home = config.get("home", "")
    found = os.path.join(home, "python3")
    return os.path.realpath(found) if home and os.path.exists(found) else ""


def _edited_through_link(path: Path, sealed: int) -> bool:
    """Tell an edit in place, which has a new time, from another package's file that was linked there, which has not."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_nlink > 1 and status.st_mtime_ns > sealed


def _sealed_at(prefix: Path) -> int:
    try:
        return (prefix / FOLDER / "seal.json").stat().st_mtime_ns
    except OSError:
        return 0
