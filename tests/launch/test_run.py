"""`envlock run`: every refusal with the command that mends it, and every option."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock.environment import stamp
from envlock.launch import ticket
from envlock.workflows.admission import driver_version
from tests.launch.conftest import shim
from tests.support.project import Project, Result

PRINT = ("--", "python", "-c", "print('ran')")


def refused(result: Result, *words: str, code: int = 125) -> None:
    assert result.code == code, (result.code, result.err)
    assert "ran" not in result.out
    for word in words:
        assert word in result.err.replace("\n", " "), (word, result.err)


def test_it_runs_as_this_very_process(launched: Project) -> None:
    code = "import os, sys; print(os.getpid(), sys.prefix)"
    for _ in range(2):
        process = launched.start("run", "app", "--", "python", "-c", code)
        pid, prefix = process.communicate()[0].strip().split(" ", 1)
        assert int(pid) == process.pid
        assert prefix == os.fspath(launched.prefix("app"))


def test_the_second_launch_imports_no_click(launched: Project) -> None:
    launched.ok("run", "app", *PRINT)
    argv = [sys.executable, "-X", "importtime", "-m", "envlock", "run", "app", "--", "true"]
    done = subprocess.run(argv, env=launched.env, cwd=launched.root, capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "envlock.launch.fast" in imported
    assert not imported & {"click", "rich", "tomlkit", "json", "re", "pathlib", "typing", "dataclasses", "subprocess"}


def test_a_profile_that_is_none_is_told(launched: Project) -> None:
    result = launched.run("run", "apq", *PRINT)
    assert result.code == 2
    assert "apq" in result.err


@pytest.mark.parametrize(
    "words", [(), ("app",), ("--no-such", "app"), ("app", "--gpus"), ("--profile-env", "x", "app", "a")]
)
def test_wrong_words_are_a_usage_error(launched: Project, words: tuple[str, ...]) -> None:
    assert launched.run("run", *words).code == 2


def test_a_missing_environment_is_refused(own: Project) -> None:
    own.simple_profile("new", "leaf")
    refused(own.run("run", "new", *PRINT), "no lock", "envlock lock new")
    own.ok("lock", "new")
    refused(own.run("run", "new", *PRINT), "has no environment here", "envlock sync new")
    assert "ran" in own.ok("run", "--sync", "new", *PRINT).out


def test_a_stale_environment_is_refused(own: Project) -> None:
    own.ok("run", "app", *PRINT)
    lock = own.layout.lock("app")
    lock.write_text(lock.read_text() + "\n# merged\n")
    result = own.run("run", "app", *PRINT)
    assert result.code in (2, 125)  # a lock edited by hand is stale to an environment, or no lock at all
    lock.write_text(lock.read_text().removesuffix("\n# merged\n"))
    assert "ran" in own.ok("run", "app", *PRINT).out
    own.profile("app", own.layout.profile("app").read_text().replace('"leaf"', '"leaf==1.0"'))
    own.ok("lock", "app")
    stale = own.run("run", "app", *PRINT)
    refused(stale, "is stale", "envlock sync app")
    assert shim(own, "python", "-c", "print('ran')").returncode == 125
    assert "ran" in own.ok("run", "--sync", "app", *PRINT).out


@pytest.mark.parametrize("way", ["edited", "same size", "deleted", "added", "library"])
def test_a_drifted_environment_is_refused_naming_file_and_package(own: Project, way: str) -> None:
    own.ok("run", "app", *PRINT)
    file = own.site("app") / "leaf" / "cli.py"
    if way == "edited":
        file.write_text(file.read_text() + "# edited\n")
    elif way == "same size":
        file.write_text(file.read_text().upper())
    elif way == "deleted":
        file.unlink()
    elif way == "added":
        file = own.site("app") / "leaf" / "extra.py"
        file.write_text("")
    else:
        file = own.site("app") / "torch" / "version.py"
        shutil.copy(file, own.root / "copy")
        file.unlink()
        shutil.copy(own.root / "copy", file)
    package = file.parent.name
    refused(own.run("run", "app", *PRINT), "drifted", file.name, f"package {package}" if way != "added" else "leaf",
            "envlock sync --rebuild app")  # fmt: skip
    refused_again = shim(own, "python", "-c", "print('ran')")
    assert refused_again.returncode == 125
    assert file.name.encode() in refused_again.stderr


def test_a_foreign_install_is_refused_whoever_made_it(own: Project, launched: Project) -> None:
    own.ok("run", "app", *PRINT)
    from uv import find_uv_bin

    done = subprocess.run(
        [find_uv_bin(), "pip", "install", "--python", own.prefix("app") / "bin" / "python", "--no-index",
         "--reinstall", "--find-links", launched.root.parent / "wheels", "leaf"],
        env=own.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused(own.run("run", "app", *PRINT), "drifted", "leaf")


def test_a_moved_store_is_refused(own: Project) -> None:
    own.ok("run", "app", *PRINT)
    moved = own.root / "elsewhere"
    own.layout.home.rename(moved)
    refused(own.run("run", "app", *PRINT, env={"ENVLOCK_HOME": str(moved)}), "moved", "envlock sync --rebuild app")


def test_a_gpu_profile_without_a_driver_is_refused_and_says_no_gpu(launched: Project) -> None:
    if os.path.exists(ticket.DRIVER):
        pytest.fail("this test is about a machine without an NVIDIA driver")
    refused(launched.run("run", "gpu", *PRINT), "no NVIDIA driver", "--no-gpu")
    assert "ran" in launched.ok("run", "--no-gpu", "gpu", *PRINT).out
    refused(launched.run("run", "gpu", *PRINT), "no NVIDIA driver", "--no-gpu")
    assert "ran" in launched.ok("run", "gpu", *PRINT, env={"ENVLOCK_NO_GPU": "1"}).out


def test_commands_that_belong_elsewhere_are_refused(launched: Project, tmp_path: Path) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "long").write_text("#!/bin/sh\n'''exec' '/other venv/bin/python3' \"$0\" \"$@\"\n' '''\n")
    (other / "long").chmod(0o755)
    for name, first in (("torchrun", "#!/usr/bin/python3"), ("mytool", "#!/usr/bin/python3"), ("fine", "#!/bin/sh")):
        (other / name).write_text(f"{first}\n")
        (other / name).chmod(0o755)
    env = {"PATH": f"{other}:{launched.env['PATH']}"}
    refused(launched.run("run", "app", "--", "torchrun", env=env), "not in this environment", str(other), code=126)
    refused(launched.run("run", "app", "--", "mytool", env=env), "another Python", "/usr/bin/python3", code=126)
    refused(launched.run("run", "app", "--", f"{other}/mytool"), "another Python", code=126)
    refused(launched.run("run", "app", "--", f"{other}/long"), "another Python", "/other venv/bin/python3", code=126)
    refused(launched.run("run", "app", "--", sys.executable, "-c", ""), "not the environment's", code=126)
    refused(launched.run("run", "app", "--", "nonesuch"), "not found", code=127)
    refused(launched.run("run", "app", "--", "./nonesuch"), "no such file", code=127)
    refused(launched.run("run", "app", "--", str(tmp_path)), "is a folder", code=126)
    refused(launched.run("run", "app", "--", ""), "empty", code=127)
    assert launched.run("run", "app", "--", "fine", env=env).code == 0
    assert launched.ok("run", "app", "leafy", "--x").out == "leafy --x\n"


def test_the_words_may_stand_in_any_order_before_the_command(launched: Project) -> None:
    for words in (("--no-gpu", "gpu", "--"), ("gpu", "--no-gpu", "--"), ("gpu", "--no-gpu"), ("--no-gpu", "gpu")):
        assert launched.ok("run", *words, "leafy", "--no-gpu", "--", "x").out == "leafy --no-gpu -- x\n"


def test_dry_run_prints_what_would_be_executed(launched: Project) -> None:
    result = launched.ok("run", "--dry-run", "--json", "app", "--", "leafy", "a b")
    assert result.json["argv"] == [f"{launched.prefix('app')}/bin/leafy", "a b"]
    assert result.json["env"]["VIRTUAL_ENV"] == str(launched.prefix("app"))
    assert {step["action"] for step in result.json["steps"]} >= {"kept", "set", "rebuilt"}
    words = launched.ok("run", "--dry-run", "app", "--", "leafy", "a b").out.splitlines()
    assert words[-1].endswith("/bin/leafy' 'a b'")


def test_explain_env_tells_each_variable_and_runs(launched: Project) -> None:
    env = {"PYTHONPATH": "/tmp", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "LD_PRELOAD": ""}
    result = launched.ok("run", "--explain-env", "app", *PRINT, env=env)
    assert result.out == "ran\n"
    for word in (
        "dropped PYTHONPATH",
        "dropped LD_LIBRARY_PATH",
        "kept    HOME",
        "set     VIRTUAL_ENV",
        "rebuilt PATH",
    ):
        assert word in result.err


def test_a_variable_for_one_launch(launched: Project) -> None:
    show = ("--", "python", "-c", "import os; print(os.environ['GREETING'], os.environ['A'])")
    result = launched.ok("run", "--profile-env", "GREETING=b=c", "--profile-env=A=", "app", *show)
    assert result.out == "b=c \n"


def test_cwd(launched: Project, tmp_path: Path) -> None:
    show = ("--", "python", "-c", "import os; print(os.getcwd(), os.environ['PWD'])")
    assert launched.ok("run", "--cwd", str(tmp_path), "app", *show).out == f"{tmp_path} {tmp_path}\n"
    assert launched.run("run", "--cwd", "/nonexistent", "app", *show).code == 2


def test_launches_are_written_down_and_listed(launched: Project, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "launches.jsonl"
    log.parent.mkdir()
    launched.ok("run", "--log", str(log), "app", "--", "leafy", 'a "b"')
    launched.ok("run", "app", "--", "true", env={"ENVLOCK_LOG": str(log)})
    assert shim(launched, "leafy", env={"ENVLOCK_LOG": str(log)}).returncode == 0
    found = launched.ok("launches", str(log), "--json").json["launches"]
    assert [entry["command"] for entry in found] == ["leafy 'a \"b\"'", "true", "leafy"]
    assert found[0]["generation"] == launched.prefix("app").name
    assert "leafy" in launched.ok("launches", str(log)).out
    assert len(launched.ok("launches", str(log), "-n", "1").out.splitlines()) == 2
    assert [entry["command"] for entry in launched.ok("launches", "--json").json["launches"]][-1] == "leafy"


def test_a_log_that_cannot_be_written_refuses_the_launch(launched: Project) -> None:
    refused(launched.run("run", "--log", "/proc/nope/x", "app", *PRINT), "written down")


def test_a_mistyped_folder_of_a_log_is_not_made(launched: Project, tmp_path: Path) -> None:
    refused(launched.run("run", "--log", str(tmp_path / "lgos" / "x"), "app", *PRINT), f"mkdir -p {tmp_path}/lgos")
    assert not (tmp_path / "lgos").exists()


def test_gpus_without_a_driver_are_refused_in_words(launched: Project) -> None:
    refused(launched.run("run", "--gpus", "0-1", "app", *PRINT), "driver")
    listed = launched.run("gpus")
    assert listed.code == 1
    assert "driver" in listed.err


def test_a_full_scan_stands_for_a_moment_only(own: Project) -> None:
    own.ok("run", "app", *PRINT)
    own.ok("run", "app", *PRINT)
    file = own.site("app") / "leaf" / "cli.py"
    ticket.renew(str(own.layout.environments("app")), time.time() - ticket.WINDOW - 1)
    file.write_text(file.read_text() + "#\n")
    refused(own.run("run", "app", *PRINT), "leaf/cli.py")


def test_a_damaged_ticket_only_costs_time(own: Project) -> None:
    own.ok("run", "app", *PRINT)
    folder = Path(ticket.folder(str(own.layout.environments("app"))))
    (folder / "ticket").write_bytes(b"\xff\x00 nonsense")
    (folder / "ticket.sh").write_text("_envlock_ok=0\n")
    assert own.ok("run", "app", *PRINT).out == "ran\n"
    (folder / "ticket.sh").write_text("")
    assert shim(own, "python", "-c", "print('ran')").stdout == b"ran\n"


def test_a_file_that_came_and_went_leaves_the_environment_as_it_was(own: Project) -> None:
    own.ok("run", "app", *PRINT)
    passing = own.site("app") / "leaf" / "passing"
    passing.write_text("")
    passing.unlink()
    assert own.ok("run", "app", *PRINT).out == "ran\n"
    guarded = ("--", "python", "-c", "import envlock_guard; envlock_guard.require('app'); print('ran')")
    assert own.ok("run", "app", *guarded).out == "ran\n"
    folder = own.layout.environments("app")
    assert stamp.unchanged(str(own.prefix("app")))
    assert ticket.read(str(folder)) is not None


def test_a_store_on_another_disk(launched: Project, tmp_path: Path) -> None:
    home = {"ENVLOCK_HOME": str(tmp_path / "a store")}
    launched.ok("sync", "app", env=home)
    launched.ok("run", "app", *PRINT, env=home)
    shim_path = tmp_path / "a store" / "bin" / "app"
    for words in (["python", "-c", "print('ran')"], ["sh", "-c", "echo ran"]):  # the fast and the slow way
        done = subprocess.run(
            [shim_path, *words], env=launched.env, cwd="/", capture_output=True, text=True, check=False
        )
        assert done.stdout == "ran\n", done.stderr
    bare = launched.run("run", "app", "--", "python", "-c", "import sys; print(sys.prefix)")
    assert bare.out.strip() == str(launched.prefix("app"))


def test_a_profile_of_a_container_launched_here_leaves_no_ticket(own: Project) -> None:
    own.profile("app", 'container = "ct"\n' + own.layout.profile("app").read_text())
    assert own.ok("run", "--in", "here", "app", *PRINT).out == "ran\n"
    assert ticket.read(str(own.layout.environments("app"))) is None


def test_eight_launches_at_once(own: Project) -> None:
    started = [own.start("run", "app", *PRINT) for _ in range(8)]
    assert [process.communicate()[0] for process in started] == ["ran\n"] * 8


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Wed Jan 22 10:00:00 UTC 2025", "570.86.10"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)", "580.95.05"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.54", "535.54"),
        ("", None),
        ("something else 1.2.3", None),
    ],
)
def test_the_driver_tells_its_version(line: str, version: str | None) -> None:
    assert driver_version(line) == version


def test_words_that_name_a_backend_are_looked_at_by_the_shim_too(launched: Project) -> None:
    words = ("python", "-c", "print('ran')", "--attention-backend", "fa3")
    for _ in range(2):
        said = shim(launched, "--no-gpu", *words, name="gpu")
        assert said.stdout == b"ran\n"
        assert b"warning" in said.stderr


def test_help_is_there_before_and_after_the_name(launched: Project) -> None:
    for words in (("run", "--help"), ("run", "app", "-h")):
        assert "--explain-env" in launched.ok(*words).out
    assert launched.ok("run", "app", "leafy", "--help").out == "leafy --help\n"


def test_a_project_reached_through_a_link_is_the_same_project(launched: Project, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(launched.root)
    show = ("--", "python", "-c", "import sys, envlock_guard; envlock_guard.require('app'); print(sys.prefix)")
    for _ in range(2):
        assert launched.ok("-C", str(link), "run", "app", *show).out.strip() == str(launched.prefix("app"))
    written = launched.layout.shim("app").read_text()
    assert launched.ok("-C", str(link), "sync", "app", "--json").json["profiles"][0]["built"] is False
    assert launched.layout.shim("app").read_text() == written
    launched.ok("-C", str(link), "verify", "app")


def test_bytes_that_are_no_text_are_told_and_handed_on(launched: Project) -> None:
    env = {**{key.encode(): value.encode() for key, value in launched.env.items()}, b"ODD": b"\xff\xfe"}
    argv: list[str | bytes] = [sys.executable, "-m", "envlock", "run"]
    show: list[str | bytes] = ["app", "python", "-c", "import os; print(os.environb[b'ODD'])", b"\xff"]
    for options in (["--dry-run"], ["--dry-run", "--json"], ["--explain-env"]):
        done = subprocess.run([*argv, *options, *show], env=env, cwd=launched.root, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout == b"b'\\xff\\xfe'\n"
