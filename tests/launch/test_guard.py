"""The guard, in real interpreters: it lets the right process pass and stops every other with words, not a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock.launch import ticket
from tests.launch.conftest import shim
from tests.support.project import Project

REQUIRE = "import envlock_guard; envlock_guard.require('app'); print('ran')"


def direct(project: Project, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [os.fspath(project.prefix("app") / "bin" / "python"), *words]
    return subprocess.run(argv, env={**project.env, **(env or {})}, capture_output=True, text=True, check=False)


def stopped(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 125, result
    assert "ran" not in result.stdout
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) < 12  # one screen
    for word in words:
        assert word in result.stderr, (word, result.stderr)


def launched_env(project: Project) -> dict[str, str]:
    found: dict[str, str] = project.ok("run", "--dry-run", "--json", "app", "--", "true").json["env"]
    return found


def test_the_right_process_passes(launched: Project) -> None:
    assert launched.ok("run", "app", "--", "python", "-c", REQUIRE).out == "ran\n"
    assert shim(launched, "python", "-c", REQUIRE).stdout == b"ran\n"


def test_it_is_a_proper_distribution(launched: Project) -> None:
    code = (
        "from importlib.metadata import distribution as d; x = d('envlock-guard'); "
        "print(sorted(str(f) for f in x.files)); print(all(f.locate().exists() for f in x.files))"
    )
    listed, there = launched.ok("run", "app", "--", "python", "-c", code).out.splitlines()
    assert "envlock_guard.py" in listed
    assert "bin/pip3" in listed
    assert there == "True"


def test_an_interpreter_reached_by_its_path_is_stopped(launched: Project) -> None:
    stopped(direct(launched, "-c", REQUIRE), "not verified when it was launched", "envlock run app")


def test_the_launch_of_another_generation_does_not_count(launched: Project) -> None:
    env = {"ENVLOCK_VERDICT": "pass", "ENVLOCK_GENERATION": "0009-deadbeef"}
    stopped(direct(launched, "-c", REQUIRE, env=env), "not verified")


def test_another_profile_is_stopped(launched: Project) -> None:
    result = launched.run("run", "--no-gpu", "gpu", "--", "python", "-c", REQUIRE)
    assert result.code == 125
    assert "the environment of another profile" in result.err
    assert "expected:  app" in result.err


def test_an_interpreter_outside_envlock_is_stopped(launched: Project) -> None:
    env = {"PYTHONPATH": os.fspath(launched.site("app"))}
    result = subprocess.run(
        [sys.executable, "-c", REQUIRE], env={**launched.env, **env}, capture_output=True, text=True, check=False
    )
    stopped(result, "not an environment of envlock", sys.executable)


@pytest.mark.parametrize("way", ["installed", "edited pyvenv.cfg", "swapped torch"])
def test_an_environment_changed_after_the_launch_is_stopped(own: Project, way: str) -> None:
    env = launched_env(own)
    assert direct(own, "-c", REQUIRE, env=env).stdout == "ran\n"
    if way == "installed":
        (own.site("app") / "six.py").write_text("")
    elif way == "swapped torch":
        (own.site("app") / "torch" / "version.py").write_text("cuda = '13.0'\n")
    else:
        config = own.prefix("app") / "pyvenv.cfg"
        config.write_text(config.read_text() + "# x\n")
    stopped(direct(own, "-c", REQUIRE, env=env), "drifted", "envlock sync --rebuild app")


def test_a_generation_that_is_no_longer_current_is_stopped_unless_it_was_launched(own: Project) -> None:
    env = launched_env(own)
    old = own.prefix("app")
    own.ok("sync", "--rebuild", "app")
    argv = [os.fspath(old / "bin" / "python"), "-c", REQUIRE]
    kept = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert kept.stdout == "ran\n"  # a launch from before the sync goes on in its own generation
    bare = subprocess.run(argv, env=own.env, capture_output=True, text=True, check=False)
    stopped(bare, "no longer the current one")


def test_a_torch_already_imported_from_elsewhere_is_stopped(launched: Project, tmp_path: Path) -> None:
    other = tmp_path / "torch"
    other.mkdir()
    (other / "__init__.py").write_text("from torch import version\n")
    (other / "version.py").write_text("cuda = '13.0'\n")
    code = f"import sys; sys.path.insert(0, {os.fspath(tmp_path)!r}); import torch; {REQUIRE}"
    result = launched.run("run", "app", "--", "python", "-c", code)
    assert result.code == 125
    assert "of another build" in result.err
    assert "CUDA 13.0" in result.err


def test_a_script_that_cannot_be_edited(launched: Project, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("x = 1\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.x)\n")
    words = ("python", "-m", "envlock_guard", "app")
    assert launched.ok("run", "app", "--", *words, str(script), "a b", "-c").out == "__main__ ['a b', '-c'] 1\n"
    assert launched.ok("run", "app", "--", *words, "-m", "this").out.startswith("The Zen")
    assert launched.run("run", "app", "--", *words, "/nonexistent.py").code == 2
    assert launched.run("run", "app", "--", *words).code == 2
    stopped(direct(launched, "-m", "envlock_guard", "app", str(script)), "not verified")


AGREE = """
import sys, types
digests = sys.argv[1].split(",")
me = int(sys.argv[2])
torch = types.ModuleType("torch")
torch.version = types.SimpleNamespace(cuda="12.8")
class Distributed:
    def is_available(self): return True
    def is_initialized(self): return len(digests) > 0 and digests[0] != ""
    def get_world_size(self): return len(digests)
    def all_gather_object(self, out, mine):
        for rank, digest in enumerate(digests):
            out[rank] = (mine[0] if digest == "same" else digest, f"host{rank}", "/p", None)
torch.distributed = Distributed()
sys.modules["torch"] = torch
import envlock_guard
envlock_guard.require("app", agree=True)
print("ran")
"""


def test_ranks_that_agree_pass_and_an_odd_one_is_named(launched: Project, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(AGREE)
    run = ("run", "app", "--", "python", str(script))
    assert launched.ok(*run, "same,same,same", "0").out == "ran\n"
    odd = launched.run(*run, "same,same,0123456789abcdef", "0")
    assert odd.code == 125
    assert "rank 2 on host2: environment 0123456789ab" in odd.err
    assert "rank 0" not in odd.err
    alone = launched.run(*run, "", "0")
    assert alone.code == 125
    assert "initialised process group" in alone.err


def test_it_costs_less_than_a_millisecond(launched: Project) -> None:
    env = launched_env(launched)
    ticket.renew(str(launched.layout.environments("app")), time.time() + 600)
    code = (
        "from time import perf_counter as now; a = now(); import envlock_guard; envlock_guard.require('app'); "
        "print(now() - a)"
    )
    times = [float(direct(launched, "-c", code, env=env).stdout) for _ in range(15)]
    assert min(times) < 0.001, times  # the best of many: the test shares its cores, the guard does not grow with that


def test_it_imports_nothing_that_was_not_there(launched: Project) -> None:
    code = "import sys; before = set(sys.modules); import envlock_guard; envlock_guard.require('app'); print(set(sys.modules) - before)"
    assert launched.ok("run", "app", "--", "python", "-c", code).out == "{'envlock_guard'}\n"
