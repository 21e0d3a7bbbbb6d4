"""Real LXC containers for tests: a small project that declares one, made by envlock and removed in the end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PACKAGES = '["python3", "python3-venv", "ca-certificates"]'  # those of local-lxc: one root file system for both


def cache() -> Path:
    """Return the user's cache folder: root file systems stay there from one run of the tests to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def project(folder: Path, name: str, *, extra: str = "", host: str | None = None) -> Path:
    """Write a project with one profile and one declared container."""
    (folder / "profiles").mkdir(parents=True)
    (folder / "container").mkdir()
    (folder / "profiles" / "tiny.toml").write_text('python = "3.11"\nrequirements = ["six==1.17.0"]\n')
    where = f'host = "{host}"\n' if host else ""
    (folder / "container" / f"{name}.toml").write_text(
        f'engine = "lxc"\n{where}privileged = true\npackages = {PACKAGES}\n{extra}'
    )
    return folder


def envlock(
    folder: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    check: bool = False,
    timeout: float = 300,
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed envlock in a project."""
    return subprocess.run(
        command(*words),
        cwd=folder,
        env={**os.environ, "ENVLOCK_PROJECT": str(folder), **(env or {})},
        input=stdin,
        capture_output=True,
        check=check,
        timeout=timeout,
    )


def command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "envlock", *words]


@contextlib.contextmanager
def container(folder: Path, name: str) -> Iterator[str]:
    """Have the declared container running; it is gone afterwards, whatever happened."""
    try:
        done = envlock(folder, "container", "create", name, timeout=900)
        assert done.returncode == 0, done.stderr.decode()
        yield name
    finally:
        envlock(folder, "container", "destroy", name, "--yes")
