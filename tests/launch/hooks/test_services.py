"""systemd's unit, held against systemd itself, and supervisor's program, really started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.hooks.conftest import Write, run, tool
from tests.support.project import Project

HOSTILE = ("a b", "$HOME", "${HOME}", "50%", "%n", "it's", 'say "hi"', "back\\slash", "ümläut", "", ";", "x ;y", "z #q")
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]), sys.prefix, flush=True)"


def test_systemd_finds_nothing_to_blame_in_the_unit(launched: Project, write: Write) -> None:
    (unit,) = write("systemd", "--user", "root", "--", "python", "-c", SHOW, *HOSTILE, "line\nbreak\ttab")
    done = run([tool("systemd-analyze"), "verify", "--man=no", unit], launched)
    assert done.returncode == 0, done.stderr
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "app.service" in line]
    assert ours == []


def test_systemd_blames_a_unit_whose_shim_is_not_there(launched: Project, write: Write) -> None:
    (unit,) = write("systemd")
    unit.write_text(unit.read_text().replace("/bin/app", "/bin/nothing"))
    done = run([tool("systemd-analyze"), "verify", "--man=no", unit], launched)
    assert "is not executable" in done.stdout + done.stderr


def test_the_units_first_step_fails_where_the_environment_is_not_in_order(own: Project, write: Write) -> None:
    (unit,) = write("systemd", project=own)
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStartPre="))
    step = line.partition("=")[2]  # no `$`, no `%`: systemd's words are the shell's here
    assert subprocess.run(["sh", "-c", step], env=own.env, capture_output=True, check=False).returncode == 0
    (own.site("app") / "leaf" / "cli.py").write_text("changed = True\n")
    done = subprocess.run(["sh", "-c", step], env=own.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "leaf/cli.py" in done.stdout + done.stderr


class Supervised:
    """A supervisord of this test's own, over a socket in a short folder."""

    def __init__(self, folder: Path, program: Path, env: dict[str, str]) -> None:
        self.log = folder / "out.log"
        self.config = folder / "supervisord.conf"
        self.config.write_text(
            f"[unix_http_server]\nfile={folder}/s\n"
            f"[supervisord]\nnodaemon=true\nlogfile={folder}/d.log\npidfile={folder}/d.pid\n"
            + ("user=root\n" if os.geteuid() == 0 else "")  # it wants to be told, and as nobody else
            + "[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
            f"[supervisorctl]\nserverurl=unix://{folder}/s\n"
            f"[include]\nfiles={program}\n"
        )
        program.write_text(program.read_text().replace("startsecs=5", "startsecs=1") + f"stdout_logfile={self.log}\n")
        self.env = env
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", self.config],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def status(self) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisorctl", "-c", self.config, "status", "app"],
            env=self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    def wait(self, *states: str) -> str:
        """Wait for one of the states, and for words in the log."""
        end = time.monotonic() + 60
        while not (self.log.is_file() and self.log.read_text()) or self.status().split()[1] not in states:
            assert time.monotonic() < end, self.status()
            time.sleep(0.2)
        return self.log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def test_supervisor_starts_exactly_the_words(
    launched: Project, write: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import json

    folder = tmp_path_factory.mktemp("s")
    code = SHOW + "; import time; time.sleep(60)"
    (program,) = write("supervisor", "--", "python", "-c", code, *HOSTILE)
    supervised = Supervised(folder, program, launched.env)
    try:
        said = supervised.wait("RUNNING")
    finally:
        supervised.stop()
    assert said == f"{json.dumps(list(HOSTILE))} {launched.prefix('app')}\n"


def test_supervisor_gives_up_on_a_refused_launch_and_the_log_says_why(
    own: Project, write: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("s")
    (program,) = write("supervisor", "--", "python", "-c", "print('started')", project=own)
    os.unlink(own.site("app") / "leaf" / "cli.py")
    supervised = Supervised(folder, program, own.env)
    try:
        said = supervised.wait("FATAL", "EXITED")  # EXITED: it took longer than startsecs to refuse
    finally:
        supervised.stop()
    assert "has drifted from its seal" in said
    assert "envlock sync --rebuild app" in said
    assert "started" not in said
