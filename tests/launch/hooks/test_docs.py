"""docs/hooks.md is held against the command: every line in it that can be typed is typed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envlock.launch.hooks import KINDS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
LINES = [line.strip() for line in TEXT.splitlines() if line.startswith("    envlock hook ")]


def envlock(project: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envlock", "-C", str(project), *words]
    return subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """The profiles and locks of this repository, and the profile that the page shows."""
    for folder in ("profiles", "locks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shown = re.search(r"```toml\n# profiles/(\w+)\.toml\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    (tmp_path / "profiles" / f"{shown[1]}.toml").write_text(shown[2])
    return tmp_path


def test_every_kind_of_a_launcher_is_on_the_page() -> None:
    named = {shlex.split(line, comments=True)[2] for line in LINES if len(shlex.split(line, comments=True)) > 2}
    assert named >= {kind.name for kind in KINDS}


@pytest.mark.parametrize("line", LINES)
def test_what_the_page_says_can_be_typed(shipped: Path, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if "-o" in words:
        words[words.index("-o") + 1] = f"{shipped}/out/"
    done = envlock(shipped, words)
    if "notebook" in words:  # nobody has locked it yet
        assert "envlock lock notebook" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    made = [path for path in (shipped / "out").rglob("*") if path.is_file()]
    assert bool(made) == ("-o" in words)
    for path in made:
        assert path.read_text().strip()
