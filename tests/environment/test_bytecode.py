"""Byte code is never checked against its source at run time, so it must be that source's wherever it comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.project import Project

TELL = "import shared; print(shared.WHO)"


def test_of_two_packages_with_one_file_the_byte_code_is_the_winners_and_stays_out_of_the_losers_cache(
    project: Project,
) -> None:
    for name in ("alpha", "zulu"):
        project.wheel(name, "1.0", files={"shared.py": f"WHO = {name!r}\n"})
    for winner, loser in (("alpha", "zulu"), ("zulu", "alpha")):
        profile = f"{winner}-wins"
        project.simple_profile(profile, "alpha", "zulu", more=f'[overlaps]\n{winner} = ["{loser}"]\n')
        project.ok("lock", profile)
        project.ok("sync", profile)
        assert project.ok("run", profile, "--", "python", "-c", TELL).out.strip() == winner
    for name in ("alpha", "zulu"):
        project.simple_profile(f"{name}-alone", name)
        project.ok("lock", f"{name}-alone")
        project.ok("sync", f"{name}-alone")
        assert project.ok("run", f"{name}-alone", "--", "python", "-c", TELL).out.strip() == name
        assert list(project.site(f"{name}-alone").glob("__pycache__/shared.*.pyc"))
    for winner in ("alpha", "zulu"):  # again, with every cache filled
        project.ok("sync", "--rebuild", f"{winner}-wins")
        assert project.ok("run", f"{winner}-wins", "--", "python", "-c", TELL).out.strip() == winner


@pytest.mark.parametrize("how", ["in place", "by another file", "deleted"])
def test_edited_byte_code_is_told_by_deep(project: Project, how: str) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    assert project.run("verify", "app", "--tier", "static", "--deep").code == 0
    compiled: Path = next(project.site("app").glob("leaf/__pycache__/__init__.*.pyc"))
    project.ok("run", "app", "--", "python", "-O", "-c", "import leaf")
    content = compiled.read_bytes()
    if how == "in place":
        compiled.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        compiled.unlink()
        if how == "by another file":
            compiled.write_bytes(content + b"x")
    told = project.run("verify", "app", "--tier", "static", "--deep")
    assert told.code == 1
    assert compiled.name in told.out
    assert "byte code" in told.out


def test_byte_code_poisoned_through_a_hard_link_does_not_reach_the_next_environment(project: Project) -> None:
    project.wheel("leaf", "1.0", files={"leaf/other.py": "X = 1\n", "leaf/template.py": "not {{ python }}\n"})
    project.simple_profile("app", "leaf")
    project.ok("lock")
    assert "edited in the cache" not in project.ok("sync").err
    assert "edited in the cache" not in project.ok("sync", "--rebuild").err
    compiled: Path = next(project.site("app").glob("leaf/__pycache__/__init__.*.pyc"))
    compiled.write_bytes(compiled.read_bytes().replace(b"1.0", b"6.6"))
    told = "import leaf; print(leaf.__version__)"
    assert project.ok("sync", "--rebuild").err.count("edited in the cache") == 1
    assert project.ok("run", "app", "--", "python", "-c", told).out.strip() == "1.0"
    assert project.run("verify", "app", "--tier", "static", "--deep").code == 0
    assert "edited in the cache" not in project.ok("sync", "--rebuild").err


def test_syncs_side_by_side_compile_one_wheel_and_lose_nothing(project: Project) -> None:
    files = {f"leaf/part{number}.py": f"X = {number}\n" for number in range(40)}
    project.wheel("leaf", "1.0", files=files)
    names = ("one", "two", "three")
    for name in names:
        project.simple_profile(name, "leaf")
    project.ok("lock")
    for _ in range(3):
        shutil.rmtree(project.layout.cache / "bytecode", ignore_errors=True)
        project.ok("sync", "--rebuild")
        for name in names:
            assert len(list(project.site(name).glob("leaf/__pycache__/*.pyc"))) == len(files) + 1
            assert project.run("verify", name, "--tier", "static", "--deep").code == 0


def test_gc_drops_byte_code_of_an_earlier_form(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    kept = project.layout.cache / "bytecode"
    (now,) = kept.iterdir()
    former = kept / "cpython-311-1" / "ab"
    former.mkdir(parents=True)
    project.ok("gc", "--dry-run")
    assert former.exists()
    project.ok("gc")
    assert list(kept.iterdir()) == [now]
