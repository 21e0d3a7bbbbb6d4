"""What lies in a prefix is looked at without ever waiting for it."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from envlock.environment import tree
from envlock.environment.digests import sha256_of
from envlock.environment.inventory import drift
from envlock.environment.tree import SPECIAL, scan
from tests.support.project import Project


def test_where_find_is_not_gnus_the_same_is_seen_and_a_pipe_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    os.link(tmp_path / "a" / "file", tmp_path / "second name")
    (tmp_path / "link").symlink_to("a/file\twith a tab")
    os.mkfifo(tmp_path / "a" / "pipe")
    (tmp_path / "a" / "__pycache__").mkdir()
    (tmp_path / "a" / "__pycache__" / "x.pyc").write_text("")
    found, by_part = scan(tmp_path), scan(tmp_path, tmp_path / "a")
    assert by_part.files == found.files
    assert by_part.records.keys() == {"", "file", "pipe"}
    with monkeypatch.context() as patch:
        patch.setattr(tree, "_find", lambda *_: None)
        for site, told in ((None, found), (tmp_path / "a", by_part)):
            walked = scan(tmp_path, site)
            assert (walked.records, walked.folders) == (told.records, told.folders)
    assert set(found.files) == {"a/file", "second name", "link", "a/pipe"}
    assert (found.files["a/pipe"].target, found.files["link"].target) == (SPECIAL, "a/file\twith a tab")
    assert found.files["a/file"].shared
    with pytest.raises(OSError, match="not a regular file"):
        sha256_of(tmp_path / "a" / "pipe")


def test_a_pipe_in_an_environment_is_told_and_not_waited_for(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    os.mkfifo(project.site("app") / "leaf" / "pipe")
    assert [item.kind for item in drift(project.prefix("app"), deep=True)] == ["added"]
    python = str(project.prefix("app") / "bin" / "python")
    assert project.run("verify", "--python", python, "--tier", "static", "--deep").code in (0, 1)
    (project.site("app") / "leaf" / "__init__.py").unlink()
    os.mkfifo(project.site("app") / "leaf" / "__init__.py")
    assert "leaf/__init__.py" in project.run("verify", "app", "--tier", "static", "--deep").out
    assert project.run("run", "app", "--", "true").code == 125


def test_a_folder_without_files_is_told_where_python_would_take_it_for_something(project: Project) -> None:
    project.wheel("leaf", "1.0")
    with zipfile.ZipFile(project.wheel("other", "1.0"), "a") as wheel:
        wheel.writestr("bare/", "")
    project.simple_profile("app", "leaf", "other")
    project.ok("lock")
    project.ok("sync")
    site = project.site("app")
    assert (site / "bare").is_dir()  # which was sealed
    words = ("verify", "app", "--tier", "static")
    project.ok(*words)
    for name in ("flash_attn", "flash_attn-2.8.dist-info"):
        for deep in ((), ("--deep",)):
            (site / name).mkdir()
            said = project.run(*words, *deep)
            assert said.code == 1
            assert f"site-packages/{name} ({name}): a folder without files" in said.out
            assert project.run("run", "app", "--", "true").code == 125
            (site / name).rmdir()
            project.ok(*words, *deep)
    (site / "leaf" / "cache").mkdir()  # whatever a program makes for itself inside its package
    project.ok(*words)
    project.ok("run", "app", "--", "true")
    shutil.rmtree(site / "bare", ignore_errors=True)
    project.ok(*words)


@pytest.mark.parametrize("deep", [False, True])
def test_a_link_that_became_a_file_is_told(project: Project, deep: bool) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    link = project.prefix("app") / "bin" / "python3"
    status = link.lstat()
    link.unlink()
    link.write_text("x" * status.st_size)
    os.utime(link, ns=(status.st_atime_ns, status.st_mtime_ns))
    (told,) = drift(project.prefix("app"), deep=deep)
    assert (told.path, told.kind, told.detail) == ("bin/python3", "changed", "no longer -> python")
