from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from envlock.resolve import uv
from tests.support.project import PYTHON, Project


@pytest.fixture
def pins(project: Project, tmp_path: Path) -> Path:
    """A folder with the three kinds of lock, written by uv, of a project that asks for tree==1.0."""
    project.wheel("leaf", "1.0")
    project.wheel("tree", "1.0", requires=["leaf"])
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0"\nrequires-python = "=={PYTHON}.*"\ndependencies = ["tree"]\n'
        f'[[tool.uv.index]]\nurl = "{project.index.url}"\ndefault = true\n'
    )
    run = [str(uv.binary())]
    subprocess.run([*run, "lock", "-q"], cwd=folder, env=project.env, check=True)
    index = ["--default-index", project.index.url]
    compiled = [*run, "pip", "compile", "-q", *index, "pyproject.toml"]
    subprocess.run([*compiled, "--generate-hashes", "-o", "requirements.txt"], cwd=folder, env=project.env, check=True)
    subprocess.run([*compiled, "-o", "pylock.toml"], cwd=folder, env=project.env, check=True)
    project.wheel("leaf", "2.0")
    return folder


@pytest.mark.parametrize(("file", "asked"), [("uv.lock", 1), ("pylock.toml", 2), ("requirements.txt", 2)])
def test_a_lock_of_another_tool_keeps_versions_and_bytes(project: Project, pins: Path, file: str, asked: int) -> None:
    result = project.ok("import", str(pins / file), "--as", "app", "--python", PYTHON)
    assert f"{asked} asked for" in result.out
    assert "other bytes" not in result.out
    lock = tomllib.loads(project.layout.lock("app").read_text())
    assert {p["name"]: p["version"] for p in lock["package"]} == {"leaf": "1.0", "tree": "1.0"}
    project.ok("sync", "app")


def test_other_bytes_are_said(project: Project, pins: Path) -> None:
    text = (pins / "requirements.txt").read_text()
    import re

    (pins / "requirements.txt").write_text(re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", text))
    result = project.ok("import", str(pins / "requirements.txt"), "--as", "app", "--python", PYTHON)
    assert "leaf 1.0: the index serves other bytes" in result.out


def test_what_is_no_lock_is_refused_with_all_faults(project: Project, tmp_path: Path) -> None:
    bad = tmp_path / "requirements.txt"
    bad.write_text("six\nidna>=3\nnon sense==\n")
    result = project.run("import", str(bad), "--as", "app")
    assert result.code == 2
    assert "six: is not pinned" in result.err
    assert "idna: is not pinned" in result.err
    odd = tmp_path / "odd.toml"
    odd.write_text("x = 1\n")
    assert project.run("import", str(odd), "--as", "app").code == 2
    assert not project.layout.profile("app").exists()
