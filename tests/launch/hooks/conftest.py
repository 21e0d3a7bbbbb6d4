"""What the hook tests share: writing one out, and a clear failure where a real tool is not installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.project import Project

Write = Callable[..., list[Path]]


@pytest.fixture
def write(launched: Project, tmp_path: Path) -> Write:
    """Write a hook out and return its files, in the order they were named."""

    def written(kind: str, *words: str, name: str = "app", project: Project = launched) -> list[Path]:
        folder = tmp_path / "hook"
        said = project.ok("hook", kind, name, "-o", f"{folder}/", *words).err
        return [Path(line.split("  ", 1)[1]) for line in said.splitlines() if line.startswith("created")]

    return written


def tool(name: str) -> str:
    """Return the path of a program that the tests need."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.fail(f"{name} is not installed: .ci/debian-packages names it")
    return found


def run(
    argv: list[str | Path], project: Project, *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**project.env, **(env or {})},
        cwd=cwd or project.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
