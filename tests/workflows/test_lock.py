"""Locking through the command line, against a real uv and a real index on loopback."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from tests.support.index import serving
from tests.support.project import Project
from tests.support.wheels import make_origin_story, make_torch, make_wheel


def lock_text(project: Project, name: str = "app") -> str:
    return project.layout.lock(name).read_text()


def versions(project: Project, name: str = "app") -> dict[str, str]:
    data = tomllib.loads(lock_text(project, name))
    return {package["name"]: package["version"] for package in data["package"]}


def test_a_lock_names_artifacts_and_nothing_of_this_machine(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.wheel("tree", "2.0", requires=["leaf>=1", "unused; python_version < '3'"])
    project.simple_profile("app", "tree")
    project.ok("lock")
    text = lock_text(project)
    assert "http" not in text
    assert "127.0.0.1" not in text
    assert str(project.root) not in text
    data = tomllib.loads(text)
    tree = next(package for package in data["package"] if package["name"] == "tree")
    assert tree["index"] == "pypi"
    assert tree["requires"] == ["leaf>=1"]
    assert tree["license"] == "MIT"
    assert tree["artifacts"][0]["file"] == "tree-2.0-py3-none-any.whl"
    assert len(tree["artifacts"][0]["sha256"]) == 64


def test_locking_again_asks_nobody_and_gives_the_same_bytes(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    first = lock_text(project)
    asked = len(project.index.requests)
    project.wheel("leaf", "2.0")
    result = project.ok("lock")
    assert "unchanged" in result.err
    assert lock_text(project) == first
    assert len(project.index.requests) == asked
    shutil.rmtree(project.layout.home)
    project.layout.lock("app").unlink()
    (project.wheels / "leaf-2.0-py3-none-any.whl").unlink()
    project.ok("lock")
    assert lock_text(project) == first


def test_a_small_change_moves_only_what_it_must(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.wheel("leaf", "2.0")
    project.wheel("other", "1.0")
    project.simple_profile("app", "leaf", "other")
    project.ok("lock")
    assert versions(project) == {"leaf": "1.0", "other": "1.0"}
    project.wheel("other", "3.0")
    project.ok("lock", "--upgrade-package", "leaf")
    assert versions(project) == {"leaf": "2.0", "other": "1.0"}
    project.ok("lock", "--upgrade")
    assert versions(project) == {"leaf": "2.0", "other": "3.0"}


def test_check_tells_what_changed_and_writes_nothing(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    assert project.run("lock", "--check").code == 1
    project.ok("lock")
    assert project.run("lock", "--check").code == 0
    before = lock_text(project)
    project.simple_profile("app", "leaf", "more")
    result = project.run("lock", "--check", "--json")
    assert result.code == 1
    assert result.json["profiles"][0] == {"name": "app", "locked": "stale", "reasons": ["requirements: +more"]}
    assert lock_text(project) == before


def test_dry_run_shows_the_moves_and_writes_nothing(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.wheel("leaf", "2.0")
    before = lock_text(project)
    result = project.ok("lock", "--dry-run", "--upgrade")
    assert "~ leaf 1.0 -> 2.0" in result.err
    assert lock_text(project) == before


def test_one_unsolvable_profile_does_not_keep_the_others(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("good", "leaf")
    project.simple_profile("bad", "leaf==9")
    result = project.run("lock")
    assert result.code == 1
    assert project.layout.lock("good").is_file()
    assert not project.layout.lock("bad").exists()
    assert "profiles/bad.toml:2: leaf==9" in result.err


def test_only_keeps_a_name_to_its_index_even_as_a_dependency(project: Project, tmp_path: Path) -> None:
    """Both indexes offer the name; whoever serves the higher version must not win (dependency confusion)."""
    inside = tmp_path / "inside"
    make_wheel(inside, "secret", "1.0")
    make_wheel(inside, "public", "99.0")
    project.wheel("secret", "99.0")
    project.wheel("public", "1.0", requires=["secret"])
    with serving(inside) as private:
        project.simple_profile(
            "app", "public", more=f'[[index]]\nname = "inside"\nurl = "{private.url}"\nonly = ["secret"]\n'
        )
        project.ok("lock")
        data = tomllib.loads(lock_text(project))
        found = {package["name"]: (package["version"], package["index"]) for package in data["package"]}
        assert found == {"public": ("1.0", "pypi"), "secret": ("1.0", "inside")}
        project.ok("sync")
    assert (project.site("app") / "secret-1.0.dist-info").is_dir()


def test_asking_for_cuda_12_and_getting_a_cuda_13_torch_is_an_error_that_says_who(project: Project) -> None:
    make_torch(project.wheels, "2.11.0", "13.0", requires=["nvidia-cuda-runtime==13.0.96"])
    project.wheel("nvidia-cuda-runtime", "13.0.96")
    project.wheel("server", "1.0", requires=["torch==2.11.0"])
    project.simple_profile("app", "server", more='[torch]\nversion = "2.11.0"\ncuda = "12.8"\n')
    result = project.run("lock", "app", "--json")
    assert result.code == 1
    error = result.json["profiles"][0]["error"]
    assert error["expected"] == "CUDA 12.8"
    assert "CUDA 13.0" in error["found"]
    assert "nvidia-cuda-runtime==13.0.96" in error["found"]
    assert any("server requires torch==2.11.0" in line for line in error["details"])
    assert 'version = "2.11.0+cu128"' in error["hint"]
    assert not project.layout.lock("app").exists()


def test_the_runtime_and_the_driver_floor_stand_in_the_lock(project: Project) -> None:
    make_torch(project.wheels, "2.10.0", "12.8", requires=["nvidia-cuda-runtime-cu12==12.8.90"])
    project.wheel("nvidia-cuda-runtime-cu12", "12.8.90")
    project.simple_profile("app", more='[torch]\nversion = "2.10.0"\ncuda = "12.8"\n')
    project.ok("lock")
    assert tomllib.loads(lock_text(project))["torch"] == {
        "version": "2.10.0",
        "cuda": "12.8",
        "runtime": "requires nvidia-cuda-runtime-cu12==12.8.90",
        "driver-floor": "525.60.13",
    }


def test_one_library_for_two_cuda_majors_is_an_error(project: Project) -> None:
    project.wheel("nvidia-nccl-cu12", "2.27.5")
    project.wheel("nvidia-nccl-cu13", "2.28.9")
    project.wheel("extension", "1.0", requires=["nvidia-nccl-cu13"])
    project.simple_profile("app", "nvidia-nccl-cu12", "extension")
    result = project.run("lock")
    assert result.code == 1
    assert "nvidia-nccl-cu12 beside nvidia-nccl-cu13" in result.err
    assert "extension requires nvidia-nccl-cu13" in result.err


def test_the_origin_story_is_caught_when_locking(project: Project, tmp_path: Path) -> None:
    """The edge: sglang's cuda-python>=13 against torch+cu128's cuda-bindings<13: pip and uv swap torch in silence."""
    make_origin_story(tmp_path / "pytorch", project.wheels)
    with serving(tmp_path / "pytorch") as pytorch:
        declared = (
            f'[torch]\nversion = "2.11.0+cu128"\ncuda = "12.8"\nindex = "pytorch-cu128"\n'
            f'[[index]]\nname = "pytorch-cu128"\nurl = "{pytorch.url}"\nonly = ["torch"]\n'
        )
        project.simple_profile("train", "onlytorchpin", more=declared)
        project.ok("lock", "train")
        assert versions(project, "train")["torch"] == "2.11.0+cu128"
        project.simple_profile("train", "onlytorchpin", "sglang", more=declared)
        before = lock_text(project, "train")
        result = project.run("lock", "train")
    assert result.code == 1
    assert "cuda-bindings" in result.err
    assert "profiles/train.toml:2: sglang" in result.err
    assert lock_text(project, "train") == before


def test_wheels_for_a_newer_glibc_are_not_locked(project: Project) -> None:
    project.wheel("native", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    project.wheel("native", "2.0", tag="cp311-cp311-manylinux_2_39_x86_64")
    project.profile(
        "app", 'python = "3.11"\nrequirements = ["native"]\n[platform]\nmachine = "x86_64"\nglibc = "2.35"\n'
    )
    project.ok("lock")
    assert versions(project) == {"native": "1.0"}


def test_the_best_wheel_for_the_platform_is_the_one_that_is_locked(project: Project) -> None:
    for tag in ("py3-none-any", "cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_17_x86_64"):
        project.wheel("native", "1.0", tag=tag)
    project.profile("app", 'python = "3.11"\nrequirements = ["native"]\n')
    project.ok("lock")
    assert "cp311-cp311-manylinux_2_17_x86_64" in lock_text(project)
    assert "py3-none-any" not in lock_text(project)


def test_an_index_behind_a_login_gives_metadata_and_files(project: Project, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    make_wheel(closed, "mine", "1.0", requires=["leaf"])
    project.wheel("leaf", "1.0")
    with serving(closed, login=("me", "p@ss word"), metadata=True) as private:
        project.simple_profile(
            "app", "mine", more='[[index]]\nname = "closed"\nurl = "https://closed.invalid/simple"\nonly = ["mine"]\n'
        )
        port = private.url.rsplit(":", 1)[1]
        env = {"ENVLOCK_INDEX_CLOSED_URL": f"http://me:p%40ss%20word@127.0.0.1:{port}"}
        project.ok("lock", env=env)
        project.ok("sync", env=env)
    assert "p%40ss" not in lock_text(project)
    assert versions(project) == {"leaf": "1.0", "mine": "1.0"}


def test_an_index_that_is_down_or_broken_is_named_as_such(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    for fault in ("500", "down"):
        project.index.faults = {fault}
        result = project.run("lock", env={"ENVLOCK_UV_HTTP_RETRIES": "0"})
        assert result.code == 1, result.err
        assert "an index could not be read" in result.err
        assert "Traceback" not in result.err


def test_settings_of_the_caller_change_nothing(project: Project, tmp_path: Path) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    hostile = {
        "UV_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple",
        "UV_PYTHON": "/nonexistent/python",
        "UV_EXCLUDE_NEWER": "2001-01-01",
        "UV_OFFLINE": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "VIRTUAL_ENV": str(tmp_path / "elsewhere"),
        "PYTHONPATH": "",
    }
    project.ok("lock", env=hostile)
    first = lock_text(project)
    project.layout.lock("app").unlink()
    project.ok("lock")
    assert lock_text(project) == first
    project.ok("sync", env=hostile)
    assert not (tmp_path / "elsewhere").exists()


def test_branches_that_add_different_packages_conflict_in_one_place_only(project: Project) -> None:
    """The digests at the head conflict, so nobody can merge without locking again; the packages merge by themselves."""
    import subprocess

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        names = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        return subprocess.run(["git", *names, *words], cwd=project.root, text=True, capture_output=True, check=False)

    for name in ("aa", "mm", "zz"):
        project.wheel(name, "1.0")
    project.simple_profile("app", "mm")
    project.ok("lock")
    git("init", "-q", "-b", "main")
    git("add", "profiles", "locks")
    git("commit", "-qm", "base")
    git("checkout", "-qb", "left")
    project.simple_profile("app", "mm", more='constraints = ["aa==1.0"]\n')
    project.simple_profile("app", "aa", "mm")
    project.ok("lock")
    git("commit", "-qam", "left")
    git("checkout", "-q", "main")
    project.simple_profile("app", "mm", "zz")
    project.ok("lock")
    git("commit", "-qam", "right")
    merged = git("merge", "left")
    assert merged.returncode != 0
    text = lock_text(project)
    result = project.run("sync")
    assert result.code == 2
    assert "an unfinished merge" in result.err or "profiles/app.toml" in result.err
    assert text.count("<<<<<<<") <= 2
    project.simple_profile("app", "aa", "mm", "zz")
    project.ok("lock")
    assert versions(project) == {"aa": "1.0", "mm": "1.0", "zz": "1.0"}
