"""`sync` and `lock` with nothing to do: told at once, and never when something is to be done."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from envlock.environment import store
from tests.support.project import Project


@pytest.fixture
def app(project: Project) -> Project:
    project.wheel("leaf", "1.0")
    project.profile("base", 'python = "3.11"\n')
    project.profile("app", 'extends = "base"\nrequirements = ["leaf"]\n')
    for words in (("lock",), ("lock", "app"), ("sync",), ("sync", "app")):
        project.ok(*words)
    return project


def imports(project: Project, *words: str) -> str:
    argv = [sys.executable, "-X", "importtime", "-m", "envlock", *words]
    return subprocess.run(argv, cwd=project.root, env=project.env, text=True, capture_output=True, check=True).stderr


@pytest.mark.parametrize("words", [("lock",), ("lock", "app"), ("sync",), ("sync", "app")])
def test_nothing_to_do_is_told_before_anything_is_imported(app: Project, words: tuple[str, ...]) -> None:
    told = imports(app, *words)
    assert " click" not in told
    assert "app: " in told
    assert "leaf" not in told


CHANGES: dict[str, Callable[[Project], object]] = {
    "the profile": lambda p: p.profile("app", 'extends = "base"\nrequirements = ["leaf>=1"]\n'),
    "its parent": lambda p: p.profile("base", 'python = "3.11"\nconstraints = ["leaf<2"]\n'),
    "another profile": lambda p: p.simple_profile("more", "leaf"),
    "the lock is gone": lambda p: p.layout.lock("app").unlink(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_looked_at(app: Project, what: str) -> None:
    CHANGES[what](app)
    assert "wrote locks/" in app.ok("lock").err


def test_what_became_of_the_environment_is_looked_at(app: Project) -> None:
    first = store.current_generation(app.layout, "app")
    app.ok("sync", "--rebuild", "app")
    second = store.current_generation(app.layout, "app")
    assert second != first
    app.ok("rollback", "app")
    assert f"generation {first}" in app.ok("sync", "app").err
    shutil.rmtree(app.layout.home / "envs")
    assert "built and sealed" in app.ok("sync").err
    app.layout.lock("app").write_text(app.layout.lock("app").read_text() + "# edited\n")
    assert app.run("sync").code == 2
