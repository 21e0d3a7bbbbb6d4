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


def test_only_what_holds_here_is_taken_and_extras_are_kept(project: Project, tmp_path: Path) -> None:
    project.wheel("windows-only", "1.0")
    project.wheel("deep", "1.0")
    project.wheel("plug", "1.0", requires=["deep", "windows-only; sys_platform == 'win32'"])
    project.wheel("base", "1.0", requires=["plug; extra == 'more'"])
    project.wheel("groups-only", "1.0")
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "x"\nversion = "0"\nrequires-python = "=={PYTHON}.*"\n'
        """dependencies = ["base[more]", "windows-only; sys_platform == 'win32'"]\n"""
        '[dependency-groups]\ndev = ["groups-only"]\n'
        f'[[tool.uv.index]]\nurl = "{project.index.url}"\ndefault = true\n'
    )
    run = [str(uv.binary())]
    subprocess.run([*run, "lock", "-q"], cwd=folder, env=project.env, check=True)
    export = [*run, "export", "-q", "--no-dev", "--no-emit-project", "--format"]
    subprocess.run([*export, "pylock.toml", "-o", "pylock.toml"], cwd=folder, env=project.env, check=True)
    subprocess.run([*export, "requirements.txt", "-o", "requirements.txt"], cwd=folder, env=project.env, check=True)
    for number, file in enumerate(("uv.lock", "pylock.toml", "requirements.txt")):
        assert "windows-only" in (folder / file).read_text()
        result = project.ok("import", str(folder / file), "--as", f"app{number}", "--python", PYTHON)
        assert "!" not in result.out
        lock = tomllib.loads(project.layout.lock(f"app{number}").read_text())
        assert sorted(one["name"] for one in lock["package"]) == ["base", "deep", "plug"]
    profile = tomllib.loads(project.layout.profile("app0").read_text())
    assert profile["requirements"] == ["base[more]==1.0"]


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("uv.lock", 'version = 1\npackage = ["x"]\n', "not as its kind is written"),
        ("uv.lock", 'version = 1\n[[package]]\nname = "x"\nresolution-markers = ["nonsense"]\n', "not as its kind"),
        ("pylock.toml", 'lock-version = "1.0"\n[[packages]]\nversion = "1"\n', "not as its kind is written"),
        ("pylock.toml", 'lock-version = "1.0"\n[[packages]]\nname = "x"\nmarker = "???"\n', "not as its kind"),
        ("requirements.txt", "-r other.txt\nleaf==1.0\n", "-r other.txt: what it names is not in this file"),
        ("requirements.txt", "-e ./here\n", "-e ./here: what it names is not in this file"),
        ("requirements.txt", "leaf>=1\n", "is not pinned"),
        ("requirements.txt", "\0\1binary\n", "no requirement"),
    ],
)
def test_what_cannot_be_imported_is_told(project: Project, tmp_path: Path, file: str, text: str, told: str) -> None:
    (tmp_path / file).write_text(text)
    refused = project.run("import", str(tmp_path / file), "--as", "app", "--python", PYTHON)
    assert refused.code == 2
    assert told in refused.err
    assert "Traceback" not in refused.err
    assert not project.layout.profile("app").exists()
