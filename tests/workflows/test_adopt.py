"""Moving in with an environment made by hand: real venvs, real damage."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from envlock.resolve import uv
from tests.support.project import PYTHON, Project


@pytest.fixture
def old(project: Project, tmp_path: Path) -> Path:
    """A venv with two packages asked for and one that came along."""
    project.wheel("leaf", "1.0", files={"leaf/data.txt": "one"})
    project.wheel("tree", "2.0rc1", requires=["leaf"])
    project.wheel("alone", "3.0")
    project.wheel("leaf", "9.0")
    venv = tmp_path / "old"
    subprocess.run([uv.binary(), "venv", "-q", venv, "--python", sys.executable], check=True)
    held = tmp_path / "held.txt"
    held.write_text("leaf==1.0\n")
    argv: list[str | Path] = [uv.binary(), "pip", "install", "-q", "--python", venv, "-c", held, "--link-mode", "copy"]
    subprocess.run([*argv, "--default-index", project.index.url, "tree==2.0rc1", "alone"], check=True, env=project.env)
    return venv


def site(venv: Path) -> Path:
    return venv / "lib" / f"python{PYTHON}" / "site-packages"


def tree_of(folder: Path) -> dict[str, float]:
    return {str(path): path.lstat().st_mtime for path in folder.rglob("*")}


def test_an_environment_is_rebuilt_from_what_it_holds(project: Project, old: Path) -> None:
    before = tree_of(old)
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    assert answer["direct"] == ["alone==3.0", "tree==2.0rc1"]
    assert answer["dependencies"] == ["leaf==1.0"]
    assert answer["damage"] == []
    assert answer["differences"] == []
    profile = tomllib.loads(project.layout.profile("adopted").read_text())
    assert profile["prerelease"] == ["tree"]
    assert profile["constraints"] == ["leaf==1.0"]
    assert "already there" in project.ok("sync", "adopted").err
    assert tree_of(old) == before


def test_damage_is_reported_and_differences_are_listed(project: Project, old: Path) -> None:
    (site(old) / "leaf" / "data.txt").write_text("edited")
    (site(old) / "~eaf").mkdir()
    (site(old) / "stray.py").write_text("")
    (site(old) / "alone" / "__init__.py").unlink()
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    damage = "\n".join(answer["damage"])
    assert "leaf/data.txt: edited after leaf was installed" in damage
    assert "~eaf: a leftover" in damage
    assert "stray.py: no distribution owns it" in damage
    assert "alone/__init__.py: missing from alone" in damage
    assert "leaf/data.txt (leaf): other bytes" in answer["differences"]
    assert "alone/__init__.py (alone): only in the rebuilt environment" in answer["differences"]


def test_an_editable_install_is_left_out_by_name(project: Project, old: Path) -> None:
    (site(old) / "alone-3.0.dist-info" / "direct_url.json").write_text(
        '{"url": "file:///home/me/alone", "dir_info": {"editable": true}}'
    )
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    assert answer["left_out"] == {"alone": "comes from an editable install of file:///home/me/alone"}
    assert answer["direct"] == ["tree==2.0rc1"]


def test_what_cannot_be_adopted(project: Project, old: Path, tmp_path: Path) -> None:
    project.simple_profile("taken", "leaf")
    taken = project.run("adopt", str(old), "--as", "taken")
    assert taken.code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert project.run("adopt", str(empty), "--as", "x").code == 1
    (project.wheels / "alone-3.0-py3-none-any.whl").unlink()
    gone = project.run("adopt", str(old), "--as", "gone", env={"ENVLOCK_UV_CACHE_DIR": str(tmp_path / "cold")})
    assert gone.code == 1
    assert not project.layout.profile("gone").exists()
