"""Moving in with an environment made by hand: real venvs, real damage."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.resolve import uv
from tests.support.index import LoopbackIndex, serving
from tests.support.project import PYTHON, Project
from tests.support.sources import make_repository
from tests.support.wheels import make_torch, make_wheel


@pytest.fixture
def other_index(tmp_path: Path) -> Iterator[LoopbackIndex]:
    folder = tmp_path / "pytorch"
    folder.mkdir()
    with serving(folder) as made:
        yield made


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


def test_a_build_of_pytorchs_own_index_is_asked_of_that_index(
    project: Project, old: Path, other_index: LoopbackIndex
) -> None:
    make_torch(other_index.folder, "2.9.1+cpu", None, requires=["leaf"])
    make_wheel(other_index.folder, "torchvision", "0.24.1+cpu", requires=["torch"])
    argv = [str(uv.binary()), "pip", "install", "-q", "--python", str(old), "--link-mode", "copy"]
    argv += ["--index", other_index.url, "--default-index", project.index.url, "torchvision==0.24.1+cpu"]
    subprocess.run(argv, check=True, env=project.env)
    answer = project.ok(
        "adopt", str(old), "--as", "adopted", "--json", env={"ENVLOCK_INDEX_PYTORCH_CPU_URL": other_index.url}
    ).json
    assert answer["torch"] == {"version": "2.9.1+cpu", "cuda": None}
    assert answer["indexes"] == {"pypi": 3, "pytorch-cpu": 2}
    assert answer["differences"] == []
    profile = tomllib.loads(project.layout.profile("adopted").read_text())
    assert profile["torch"] == {"version": "2.9.1+cpu", "cuda": "cpu", "index": "pytorch-cpu"}
    assert [(one["name"], one["only"]) for one in profile["index"]] == [("pytorch-cpu", ["torch", "torchvision"])]


def test_direct_references_are_kept_where_they_are_pinned_to_bytes(project: Project, old: Path, tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "repository", "fromgit", "1.0")
    served = project.wheel("fromurl", "1.0")
    local = make_wheel(tmp_path / "local", "fromfile", "1.0")
    url = f"{project.index.url.removesuffix('/simple')}/files/{served.name}"
    argv = [str(uv.binary()), "pip", "install", "-q", "--python", str(old), "--link-mode", "copy"]
    wanted = [f"fromgit @ git+file://{tmp_path}/repository@{commit}", f"fromurl @ {url}", str(local)]
    subprocess.run([*argv, "--default-index", project.index.url, *wanted], check=True, env=project.env)
    told = site(old) / "fromurl-1.0.dist-info" / "direct_url.json"
    digest = hashlib.sha256(served.read_bytes()).hexdigest()
    told.write_text(json.dumps({"url": url, "archive_info": {"hashes": {"sha256": digest}}}))  # as pip writes it
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    assert answer["left_out"] == {"fromfile": f"comes from file://{local}"}
    assert answer["differences"] == []
    text = project.layout.profile("adopted").read_text()
    assert f"fromgit @ git+file://{tmp_path}/repository@{commit}" in text
    assert f"fromurl @ {url}#sha256={digest}" in text


def test_old_metadata_and_a_build_of_ones_own_are_left_out_with_a_reason(project: Project, old: Path) -> None:
    (site(old) / "ancient-0.1.egg-info").mkdir()
    (site(old) / "ancient-0.1.egg-info" / "PKG-INFO").write_text("Name: ancient\nVersion: 0.1\n")
    make_wheel(project.wheels.parent / "own", "mine", "1.0+tuned")
    with zipfile.ZipFile(project.wheels.parent / "own" / "mine-1.0+tuned-py3-none-any.whl") as wheel:
        wheel.extractall(site(old))
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    assert "old metadata (ancient-0.1.egg-info)" in answer["left_out"]["ancient"]
    assert "1.0+tuned" in answer["left_out"]["mine"]
    assert answer["direct"] == ["alone==3.0", "tree==2.0rc1"]


def test_an_environment_whose_interpreter_is_gone_is_read_from_its_files(project: Project, old: Path) -> None:
    for path in (old / "bin").glob("python*"):
        path.unlink()
    (old / "bin" / "python").symlink_to("/no/such/python3")
    answer = project.ok("adopt", str(old), "--as", "adopted", "--json").json
    assert answer["python"] == PYTHON
    assert answer["differences"] == []


def test_an_interpreter_outside_any_prefix_is_asked_where_its_packages_are(
    project: Project, old: Path, tmp_path: Path
) -> None:
    debian = tmp_path / "usr" / "lib" / "python3" / "dist-packages"
    debian.parent.mkdir(parents=True)
    shutil.move(site(old), debian)
    python = tmp_path / "usr" / "bin" / "python3"
    python.parent.mkdir()
    lines = (
        f"print('{PYTHON}'); print('/usr/lib/python3.zip'); print('{debian}'); print('{tmp_path}/local/dist-packages')"
    )
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{lines}"\n')
    python.chmod(0o755)
    answer = project.ok("adopt", str(python), "--as", "adopted", "--json").json
    assert answer["direct"] == ["alone==3.0", "tree==2.0rc1"]
    assert answer["differences"] == []
    python.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    broken = project.run("adopt", str(python), "--as", "other")
    assert broken.code == 1
    assert "broken" in broken.err
