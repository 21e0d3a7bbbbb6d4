"""Fixtures for all stages. A test that forgets to choose a project or a store fails instead of using the real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.index import LoopbackIndex
from tests.support.project import Project, clean_environment


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("ENVLOCK_", "UV_", "PIP_", "CONDA_")) or name in ("VIRTUAL_ENV", "PYTHONPATH"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ENVLOCK_PROJECT", str(tmp_path / "no-project-was-chosen"))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LoopbackIndex]:
    folder = tmp_path / "wheels"
    folder.mkdir()
    made = LoopbackIndex(folder)
    yield made
    made.close()


@pytest.fixture
def project(tmp_path: Path, index: LoopbackIndex) -> Project:
    """A project whose default index is the loopback one."""
    root = tmp_path / "project"
    (root / "profiles").mkdir(parents=True)
    env = clean_environment(tmp_path, tmp_path / "uv-cache")
    env["ENVLOCK_INDEX_PYPI_URL"] = index.url
    return Project(root=root, index=index, env=env)
