"""One synced project for all launch tests that only read it; tests that damage an environment build their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.index import serving
from tests.support.project import PYTHON, Project, clean_environment
from tests.support.wheels import make_torch

PROFILE = f"""
python = "{PYTHON}"
requirements = ["leaf"]

[torch]
version = "2.10.0"
cuda = "12.8"

[env]
set = {{ PYTORCH_ALLOC_CONF = "expandable_segments:True", GREETING = "hello ${{HOME}}'s \\"house\\" $$x", EMPTY = "" }}
pass = ["NCCL_*"]
"""
SCRIPT = "def main():\n    import sys\n    print('leafy', *sys.argv[1:])\n    return 0\n"
TORCH = {"torch/version.py": "__version__ = '2.10.0+cu128'\ncuda: str | None = '12.8'\n", "torch/__init__.py": ""}


def build(folder: Path, uv_cache: Path, url: str) -> Project:
    root = folder / "pro ject"  # a space: every path is quoted, or this fails
    (root / "profiles").mkdir(parents=True)
    env = clean_environment(folder, uv_cache) | {"ENVLOCK_INDEX_PYPI_URL": url}
    return Project(root=root, index=None, env=env)  # type: ignore[arg-type] # the index is held by the fixture


def offer(wheels: Path) -> None:
    from tests.support.wheels import make_wheel

    make_wheel(wheels, "leaf", "1.0", files={"leaf/cli.py": SCRIPT}, scripts={"leafy": "leaf.cli:main"})
    make_torch(wheels, "2.10.0", "12.8", requires=["nvidia-cuda-runtime-cu12==12.8.90"])
    make_wheel(wheels, "nvidia-cuda-runtime-cu12", "12.8.90")


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with synced profiles `app` and `gpu`; read only."""
    folder = tmp_path_factory.mktemp("launch")
    wheels = folder / "wheels"
    wheels.mkdir()
    offer(wheels)
    with serving(wheels) as index:
        project = build(folder, folder / "uv-cache", index.url)
        project.profile("app", PROFILE)
        project.profile("gpu", PROFILE + '\n[gpu]\ncompute-capability = "12.0"\n')
        project.ok("lock")
        project.ok("sync")
        yield project


@pytest.fixture
def own(launched: Project, tmp_path: Path) -> Project:
    """A project of this test's own, with a synced profile `app`, from the same locks, index and uv cache."""
    url = launched.env["ENVLOCK_INDEX_PYPI_URL"]
    project = build(tmp_path, Path(launched.env["ENVLOCK_UV_CACHE_DIR"]), url)
    shutil.copytree(launched.layout.locks, project.layout.locks)
    # Copies: a file edited in place through a hard link would change uv's cache, and with it every other test.
    project.profile("app", 'links = "copy"\n' + PROFILE)
    shutil.copytree(launched.layout.cache, project.layout.cache)
    project.ok("sync", "app")
    return project


SHELLS = (["dash"], ["bash", "--posix"], ["bash"], ["busybox", "sh"])


def shim(
    project: Project,
    *words: str | bytes,
    shell: list[str] | None = None,
    name: str = "app",
    env: dict[str, str] | None = None,
    input: bytes | None = None,
) -> subprocess.CompletedProcess[bytes]:
    argv = [*(shell or []), os.fspath(project.layout.shim(name)), *words]
    return subprocess.run(
        argv,
        env={**project.env, **(env or {})},
        cwd=project.root,
        capture_output=True,
        check=False,
        input=input,
    )
