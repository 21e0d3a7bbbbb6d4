"""Syncing through the command line: real uv, real wheels, real kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envlock.environment import store
from envlock.environment.inventory import drift, read_inventory
from tests.support.index import serving
from tests.support.project import PYTHON, Project, clean_environment
from tests.support.wheels import make_torch, make_wheel


@pytest.fixture
def app(project: Project) -> Project:
    """A project with one locked profile of two packages."""
    project.wheel("leaf", "1.0", files={"leaf/data.txt": "one"}, scripts={"leafy": "leaf:main"})
    project.wheel("tree", "1.0", requires=["leaf"])
    project.simple_profile("app", "tree")
    project.ok("lock")
    return project


def python(project: Project, code: str, name: str = "app") -> str:
    argv = [str(project.prefix(name) / "bin" / "python"), "-c", code]
    return subprocess.run(argv, text=True, capture_output=True, check=True).stdout.strip()


def seal(project: Project, name: str = "app") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.prefix(name) / "seal" / "seal.json").read_text())
    return found


def test_a_sync_builds_seals_and_switches(app: Project) -> None:
    result = app.ok("sync", "--json")
    answer = result.json["profiles"][0]
    assert answer["built"] is True
    assert answer["generation"].startswith("0001-")
    assert python(app, "import leaf, tree; print(leaf.__version__, tree.__version__)") == "1.0 1.0"
    written = seal(app)
    assert {p["name"] for p in written["packages"]} == {"leaf", "tree"}
    assert written["prefix"] == str(app.prefix("app"))
    assert "leaf/data.txt" in " ".join(read_inventory(app.prefix("app")))
    assert drift(app.prefix("app"), deep=True) == []


def test_a_sync_with_nothing_to_do_starts_no_process_and_asks_nobody(app: Project) -> None:
    app.ok("sync")
    app.index.faults = {"down"}
    asked = len(app.index.requests)
    refuse = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('subprocess.Popen', 'os.fork', 'os.posix_spawn', 'os.exec', 'socket.connect'):\n"
        "        raise SystemExit(f'started {event} {args}')\n"
        "sys.addaudithook(hook)\n"
        "from envlock.cli.main import cli\n"
        "sys.exit(cli(['sync', 'app']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", refuse], cwd=app.root, env=app.env, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "already there" in done.stderr
    assert len(app.index.requests) == asked


def test_offline_installs_from_a_warm_cache_and_says_so_when_it_is_cold(app: Project) -> None:
    cold = app.run("sync", "--offline")
    assert cold.code == 1
    assert "--offline" in cold.err
    app.ok("sync")
    app.index.faults = {"down"}
    app.ok("sync", "--rebuild", "--offline")
    app.ok("sync", "--rebuild")  # the cache is tried first: no network needed without --offline either


def test_another_build_of_the_same_version_is_another_generation(app: Project) -> None:
    """uv alone calls it satisfied and keeps the old bytes (peers T1)."""
    app.ok("sync")
    assert python(app, "import leaf; print(getattr(leaf, 'build', 'first'))") == "first"
    app.wheel("leaf", "1.0", files={"leaf/__init__.py": "__version__ = '1.0'\nbuild = 'second'\n"})
    app.layout.lock("app").unlink()
    app.ok("lock", env={"ENVLOCK_UV_CACHE_DIR": str(app.root / "other-cache")})
    app.ok("sync")
    assert python(app, "import leaf; print(leaf.build)") == "second"
    assert len(store.generations(app.layout, "app")) == 2


def test_going_back_to_an_earlier_lock_builds_nothing(app: Project) -> None:
    app.ok("sync")
    first = app.layout.lock("app").read_text()
    app.wheel("leaf", "2.0")
    app.ok("lock", "--upgrade")
    app.ok("sync")
    app.layout.lock("app").write_text(first)
    app.index.faults = {"down"}
    result = app.ok("sync", "--json")
    assert result.json["profiles"][0]["built"] is False
    assert store.current_generation(app.layout, "app") == store.generations(app.layout, "app")[0]


def test_two_syncs_at_once_build_once(app: Project) -> None:
    app.index.faults = {"slow"}
    both = [app.start("sync") for _ in range(2)]
    for process in both:
        process.communicate(timeout=120)
    assert [process.returncode for process in both] == [0, 0]
    assert len(store.generations(app.layout, "app")) == 1


@pytest.mark.parametrize("delay", [0.3, 0.7, 1.1, 1.5])
def test_a_killed_sync_leaves_the_old_environment_and_the_next_one_cleans_up(app: Project, delay: float) -> None:
    """uv alone never converges after a kill in the middle of an upgrade (peers T3)."""
    app.ok("sync")
    before = store.current_generation(app.layout, "app")
    app.wheel("leaf", "2.0", files={f"leaf/m{number}.py": f"x = {number}\n" for number in range(2000)})
    app.ok("lock", "--upgrade")
    process = app.start("sync")
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    current = store.current_generation(app.layout, "app")
    assert current in store.generations(app.layout, "app")
    version = python(app, "import leaf; print(leaf.__version__)")
    assert version == ("1.0" if current == before else "2.0")
    app.ok("sync")
    assert python(app, "import leaf; print(leaf.__version__)") == "2.0"
    assert store.unsealed(app.layout, "app") == ()
    assert drift(app.prefix("app"), deep=True) == []


def test_ctrl_c_ends_with_130_and_leaves_nothing_half_built(app: Project) -> None:
    app.index.faults = {"slow"}
    app.index.delay = 20.0
    process = app.start("sync")
    assert process.stderr is not None
    while "installing" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert store.unsealed(app.layout, "app") == ()
    app.index.faults = set()
    app.ok("sync")


def test_a_file_poisoned_through_a_hard_link_is_noticed_named_and_mended(app: Project) -> None:
    """uv does not check its unpacked cache again: one edited file poisons every later environment (peers T4)."""
    app.ok("sync")
    if seal(app)["links"] != "hardlink":
        pytest.skip("this file system gives reflinks: an edit does not reach the cache")
    with (app.site("app") / "leaf" / "data.txt").open("a") as file:
        file.write("poison")
    result = app.ok("sync", "--rebuild")
    assert "leaf" in result.err
    assert "edited in place" in result.err
    assert (app.site("app") / "leaf" / "data.txt").read_text() == "one"
    assert drift(app.prefix("app"), deep=True) == []


def test_poisoned_sources_never_become_byte_code(app: Project) -> None:
    app.ok("sync")
    with (app.site("app") / "leaf" / "__init__.py").open("a") as file:
        file.write("\npoison = 1\n")
    shutil.rmtree(app.layout.cache / "bytecode")
    app.ok("sync", "--rebuild")
    assert python(app, "import leaf; print(hasattr(leaf, 'poison'))") == "False"


def test_byte_code_is_shared_and_a_launch_writes_nothing(app: Project) -> None:
    app.ok("sync")
    first = app.site("app") / "leaf" / "__pycache__" / f"__init__.{sys.implementation.cache_tag}.pyc"
    inode = first.stat().st_ino
    assert first.read_bytes()[4] == 1, "unchecked-hash (PEP 552): bit 0 set, bit 1 clear"
    names = sorted(path for path in app.prefix("app").rglob("*"))
    where = python(app, "import leaf, tree; print(leaf.__file__, (lambda: 0).__code__.co_filename)")
    assert where.startswith(str(app.site("app").resolve()))
    assert sorted(path for path in app.prefix("app").rglob("*")) == names
    result = app.ok("sync", "--rebuild")
    assert "compiling" not in result.err
    again = app.site("app") / "leaf" / "__pycache__" / first.name
    assert again != first
    assert again.stat().st_ino == inode


def test_tracebacks_tell_true_paths_although_byte_code_is_shared(app: Project) -> None:
    app.wheel("leaf", "3.0", files={"leaf/__init__.py": "def where():\n    return where.__code__.co_filename\n"})
    app.ok("lock", "--upgrade")
    app.ok("sync")
    assert python(app, "import leaf; print(leaf.where())") == str(app.site("app") / "leaf" / "__init__.py")


def test_two_hosts_get_the_same_environment_digest(app: Project, tmp_path: Path) -> None:
    app.ok("sync")
    other = Project(root=tmp_path / "elsewhere" / "deeper", index=app.index, env=dict(app.env))
    shutil.copytree(app.root / "profiles", other.root / "profiles")
    shutil.copytree(app.root / "locks", other.root / "locks")
    other.ok("sync")
    assert seal(other)["environment_digest"] == seal(app)["environment_digest"]


def test_the_same_lock_installs_from_a_mirror(app: Project, tmp_path: Path) -> None:
    before = app.layout.lock("app").read_text()
    mirror = tmp_path / "mirror"
    shutil.copytree(app.wheels, mirror)
    app.index.faults = {"down"}
    with serving(mirror) as other:
        app.ok("sync", env={"ENVLOCK_INDEX_PYPI_URL": other.url})
        assert any("leaf" in path for path in other.requests)
    assert app.layout.lock("app").read_text() == before
    configuration = Path(app.env["HOME"]) / ".config" / "envlock"
    configuration.mkdir(parents=True)
    with serving(mirror) as other:
        (configuration / "config.toml").write_text(f'[index]\npypi = "{other.url}"\n')
        env = {"ENVLOCK_INDEX_PYPI_URL": "", "ENVLOCK_UV_CACHE_DIR": str(tmp_path / "new-cache")}
        app.ok("sync", "--rebuild", env=env)
        assert any("leaf" in path for path in other.requests)


@pytest.mark.parametrize("fault", ["altered", "truncated", "vanished"])
def test_an_index_that_serves_something_else_is_refused(app: Project, fault: str) -> None:
    app.ok("sync")
    before = store.current_generation(app.layout, "app")
    getattr(app.index, fault).add("leaf-1.0-py3-none-any.whl")
    result = app.run("sync", "--rebuild", env={"ENVLOCK_UV_CACHE_DIR": str(app.root / "empty-cache")})
    assert result.code == 1
    assert "leaf" in result.err
    assert "Traceback" not in result.err
    assert store.current_generation(app.layout, "app") == before
    assert store.unsealed(app.layout, "app") == ()


def test_a_yanked_file_that_is_locked_still_installs(app: Project) -> None:
    app.index.yanked.add("leaf-1.0-py3-none-any.whl")
    app.ok("sync")


def test_a_foreign_prefix_is_never_touched(app: Project, tmp_path: Path) -> None:
    """UV_PYTHON in the caller's environment made `uv pip sync` empty another interpreter (peers 2)."""
    foreign = tmp_path / "foreign"
    subprocess.run([sys.executable, "-m", "venv", foreign], check=True)
    before = sorted(path.name for path in (foreign / "lib" / f"python{PYTHON}" / "site-packages").iterdir())
    app.ok("sync", env={"UV_PYTHON": str(foreign / "bin" / "python"), "VIRTUAL_ENV": str(foreign)})
    after = sorted(path.name for path in (foreign / "lib" / f"python{PYTHON}" / "site-packages").iterdir())
    assert after == before


def test_two_packages_that_own_one_file_are_refused(project: Project) -> None:
    """uv installs both in silence, and the last one wins (peers 2)."""
    project.wheel("left", "1.0", files={"shared/lib.so": "left"})
    project.wheel("right", "1.0", files={"shared/lib.so": "right"})
    project.simple_profile("app", "left", "right")
    project.ok("lock")
    result = project.run("sync")
    assert result.code == 1
    assert "shared/lib.so" in result.err
    assert store.generations(project.layout, "app") == ()


def test_a_torch_that_is_not_the_declared_build_is_not_sealed(project: Project) -> None:
    """The metadata says cu128, the files say cu130: what is installed counts."""
    make_wheel(
        project.wheels,
        "torch",
        "2.10.0",
        requires=["nvidia-cuda-runtime-cu12==12.8.90"],
        files={"torch/version.py": "__version__ = '2.10.0+cu130'\ncuda = '13.0'\n"},
    )
    project.wheel("nvidia-cuda-runtime-cu12", "12.8.90")
    project.simple_profile("app", more='[torch]\nversion = "2.10.0"\ncuda = "12.8"\n')
    project.ok("lock")
    result = project.run("sync")
    assert result.code == 1
    assert "CUDA 12.8" in result.err
    assert "2.10.0+cu130" in result.err


def test_the_seal_knows_the_torch_build_that_the_version_hides(project: Project) -> None:
    make_torch(project.wheels, "2.11.0", "13.0", requires=["cuda-toolkit==13.0.2"])
    project.wheel("cuda-toolkit", "13.0.2")
    project.simple_profile("app", more='[torch]\nversion = "2.11.0"\ncuda = "13.0"\n')
    project.ok("lock")
    project.ok("sync")
    assert seal(project)["torch"] == {"version": "2.11.0+cu130", "cuda": "13.0", "distribution": "2.11.0"}


def damaged_locks(text: str) -> dict[str, str]:
    lines = text.splitlines(keepends=True)
    sha = next(number for number, line in enumerate(lines) if "sha256 = " in line and "leaf" in line)
    start = next(number for number, line in enumerate(lines) if line == 'name = "leaf"\n')
    end = next(number for number in range(start, len(lines)) if lines[number].startswith("]")) + 1
    return {
        "hash": "".join([*lines[:sha], re.sub(r'sha256 = "..', 'sha256 = "00', lines[sha]), *lines[sha + 1 :]]),
        "version": text.replace('name = "leaf"\nversion = "1.0"', 'name = "leaf"\nversion = "1.1"'),
        "missing package": "".join([*lines[: start - 1], *lines[end:]]),
        "truncated": text[: len(text) * 2 // 3],
        "newer format": text.replace("format = 1\n", "format = 99\n"),
        "another profile's": text.replace('profile = "app"', 'profile = "other"'),
        "not TOML": text + "\n[[[",
        "not UTF-8": text,
    }


@pytest.mark.parametrize("kind", damaged_locks('a\n[[package]]\nname = "leaf"\nx leaf sha256 = ""\n]\n'))
def test_a_damaged_lock_is_refused_with_what_is_wrong(app: Project, kind: str) -> None:
    path = app.layout.lock("app")
    text = damaged_locks(path.read_text())[kind]
    path.write_bytes(text.encode() + (b"\xff\xfe" if kind == "not UTF-8" else b""))
    result = app.run("sync")
    assert result.code == 2, result.err
    assert "locks/app.toml" in result.err
    expected = {
        "hash": "edited by hand",
        "version": "version 1.1 does not fit its file",
        "missing package": "requires leaf, which is missing",
        "truncated": "envlock lock app",
        "newer format": "lock format 99",
        "another profile's": "a lock of profile 'other'",
        "not TOML": "not TOML",
        "not UTF-8": "not UTF-8",
    }[kind]
    assert expected in result.err
    assert "Traceback" not in result.err


def test_a_stale_lock_is_refused_with_the_change(app: Project) -> None:
    app.simple_profile("app", "tree", "leaf>=1")
    result = app.run("sync")
    assert result.code == 1
    assert "requirements: +leaf>=1" in result.err
    assert "envlock lock app" in result.err


def test_a_half_deleted_store_is_built_again(app: Project) -> None:
    app.ok("sync")
    shutil.rmtree(app.prefix("app") / "seal")
    app.ok("sync")
    assert python(app, "import tree; print(tree.__version__)") == "1.0"
    shutil.rmtree(app.layout.home)
    app.ok("sync")
    assert python(app, "import tree; print(tree.__version__)") == "1.0"


def test_a_store_that_was_moved_is_built_again(app: Project, tmp_path: Path) -> None:
    app.ok("sync")
    moved = tmp_path / "moved"
    shutil.move(app.layout.home, moved)
    result = app.ok("sync", "--json", env={"ENVLOCK_HOME": str(moved)})
    assert result.json["profiles"][0]["built"] is True


def test_a_store_that_cannot_be_written_is_said_so(app: Project, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = app.run("sync", env={"ENVLOCK_HOME": str(blocked / "store")})
    assert result.code == 1
    assert "ENVLOCK_HOME" in result.err
    assert "Traceback" not in result.err


def test_a_full_disk_leaves_the_old_environment(app: Project, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], check=True)
    try:
        env = {"ENVLOCK_HOME": str(small / "store")}
        app.ok("sync", env=env)
        app.wheel("leaf", "2.0", files={"leaf/big.bin": os.urandom(6_000_000).hex()[:6_000_000]})
        app.ok("lock", "--upgrade", env=env)
        result = app.run("sync", env=env)
        assert result.code == 1
        assert "disk is full" in result.err
        current = small / "store" / "envs" / "app" / "current" / "bin" / "python"
        done = subprocess.run(
            [current, "-c", "import leaf; print(leaf.__version__)"], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "1.0"
        left = [entry.name for entry in (small / "store" / "envs" / "app").iterdir() if entry.name.startswith("0002")]
        assert left == []
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_profile_names_that_are_paths_or_odd_are_refused(app: Project) -> None:
    for name in ("../app", "a.b", "App", "a b", "-x", "a" * 80):
        for command in ("sync", "lock"):
            result = app.run(command, "--", name)
            assert result.code == 2, (command, name, result.err)
            assert "cannot name a profile" in result.err


def test_a_broken_python_launcher_on_path_does_not_matter(app: Project, tmp_path: Path) -> None:
    """A pyenv shim that exits 127 makes `uv python find` fail outright."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in (f"python{PYTHON}", "python3", "python"):
        (broken / name).write_text("#!/bin/sh\necho 'pyenv: not found' >&2\nexit 127\n")
        (broken / name).chmod(0o755)
    result = app.ok("sync", env={"PATH": f"{broken}:{app.env['PATH']}"})
    assert f"Python {PYTHON}" in result.err


def test_a_python_that_is_not_there_is_named_with_what_to_install(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.profile("app", 'python = "3.10.99"\nrequirements = ["leaf"]\n')
    project.ok("lock")
    result = project.run("sync")
    assert result.code == 1
    assert "no Python 3.10.99" in result.err
    assert "apt-get install python3.10-venv" in result.err


def test_clean_environment_is_clean(tmp_path: Path) -> None:
    assert not [name for name in clean_environment(tmp_path, tmp_path) if name.startswith(("UV_", "PIP_"))]
