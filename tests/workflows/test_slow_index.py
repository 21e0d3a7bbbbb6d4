"""Indexes that are slow, or say nothing: time is bounded, the setting is named, nothing is half-done."""

from __future__ import annotations

import os
import signal
import time

import pytest

from envlock.environment import store
from tests.support.project import Project

SHORT = {"ENVLOCK_HTTP_TIMEOUT": "1"}


@pytest.fixture
def app(project: Project) -> Project:
    project.wheel("leaf", "1.0", files={"leaf/data.txt": "".join(chr(33 + n * n % 90) for n in range(3000))})
    project.simple_profile("app", "leaf")
    return project


def test_a_trickle_is_waited_for(app: Project) -> None:
    app.index.faults = {"trickle", "no-ranges"}
    app.ok("lock", env=SHORT)
    app.ok("sync", env=SHORT)
    app.ok("run", "app", "--", "python", "-c", "import leaf")


def test_an_index_that_never_answers_ends_the_lock_and_names_the_setting(app: Project) -> None:
    app.index.faults = {"stall"}
    begin = time.monotonic()
    refused = app.run("lock", env=SHORT)
    assert refused.code == 1
    assert "silent for too long" in refused.err
    assert "ENVLOCK_HTTP_TIMEOUT" in refused.err
    assert time.monotonic() - begin < 60
    assert not app.layout.lock("app").exists()


def test_a_file_that_stops_half_way_ends_the_sync_and_leaves_the_environment_before(app: Project) -> None:
    app.ok("lock")
    app.ok("sync")
    before = store.current_generation(app.layout, "app")
    app.wheel("leaf", "2.0")
    app.ok("lock", "--upgrade")
    app.index.faults = {"stall-files"}
    refused = app.run("sync", env={**SHORT, "ENVLOCK_UV_CACHE_DIR": str(app.root.parent / "cold")})
    assert refused.code == 1
    assert "ENVLOCK_HTTP_TIMEOUT" in refused.err
    assert "leaf" in refused.err
    assert store.current_generation(app.layout, "app") == before
    assert store.unsealed(app.layout, "app") == ()


def test_ctrl_c_while_an_index_is_silent_ends_at_once(app: Project) -> None:
    app.index.faults = {"stall"}
    process = app.start("lock")
    assert process.stderr is not None
    while "resolving" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(1)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert time.monotonic() - begin < 10
    assert not app.layout.lock("app").exists()


@pytest.mark.parametrize("value", ["0", "soon", "-1", "nan", "inf"])
def test_what_is_no_time_limit_is_told(app: Project, value: str) -> None:
    refused = app.run("lock", env={"ENVLOCK_HTTP_TIMEOUT": value})
    assert refused.code == 2
    assert "ENVLOCK_HTTP_TIMEOUT is no time limit" in refused.err


@pytest.mark.parametrize("fault", ["stall", "stall-files"])
@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_ends_a_sync_of_one_and_of_several_profiles(app: Project, number: int, fault: str) -> None:
    app.simple_profile("other", "leaf")
    app.ok("lock")
    app.index.faults = {fault}
    app.env["ENVLOCK_UV_CACHE_DIR"] = str(app.root.parent / "cold")
    process = app.start("sync", *("app", "other")[:number])
    assert process.stderr is not None
    while "installing" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(1)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert time.monotonic() - begin < 10
    for name in ("app", "other"):
        assert store.unsealed(app.layout, name) == ()
        assert store.current_generation(app.layout, name) is None
