"""The shim under real shells: arguments, environment, exit codes, signals, and that nothing forks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock.launch import ticket
from envlock.launch.shim import ticket_text
from tests.launch.conftest import SHELLS, shim
from tests.support.project import Project

shells = pytest.mark.parametrize("shell", SHELLS, ids=[words[-1] + str(len(words)) for words in SHELLS])
SHOW = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
HOSTILE: list[bytes] = [
    b"", b" ", b"a b", b"'", b'"', b"\\", b"$HOME", b"`id`", b"$(id)", b"*", b"?", b"[a-z]", b"~", b"-", b"--", b"-n",
    b"--no-gpu", b"-x=y", b"a\nb", b"\n", b"\ttab", b"\xff\xfe not utf-8", "ümläut".encode(), b"; exit 3", b"&", b"|",
    b">x", b"#", b"!", b"{a,b}", b"%s", b"\x01\x7f", b"\x81\x82\x88",
]  # fmt: skip


def warmed(project: Project, name: str = "app") -> None:
    """Make the ticket, and make its full scan count for the length of a test."""
    project.ok("run", "--no-gpu", name, "--", "true")
    ticket.renew(str(project.layout.environments(name)), time.time() + 600)


def has(shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.fail(f"{shell[0]} is not installed: .ci/debian-packages names it")


@shells
def test_every_argument_arrives_untouched(launched: Project, shell: list[str]) -> None:
    has(shell)
    warmed(launched)
    result = shim(launched, "python", "-c", SHOW, *HOSTILE, shell=shell)
    assert result.stdout.split(b"\0") == HOSTILE


@shells
def test_every_argument_arrives_untouched_on_the_slow_way(launched: Project, shell: list[str]) -> None:
    ticket.forget(str(launched.layout.environments("app")))
    result = shim(launched, "--", "python", "-c", SHOW, *HOSTILE, shell=shell)
    assert result.stdout.split(b"\0") == HOSTILE, result.stderr


@shells
def test_the_shim_composes_what_run_composes(launched: Project, shell: list[str]) -> None:
    warmed(launched)
    caller = {
        "PYTHONPATH": "/x", "PYTHONHOME": "", "LD_LIBRARY_PATH": "/cuda", "VIRTUAL_ENV": "/v", "PIP_INDEX_URL": "u",
        "UV_PYTHON": "u", "CONDA_PREFIX": "/c", "CUDA_HOME": "/cuda", "NCCL_DEBUG": "INFO", "NCCL_NET_PLUGIN": "p",
        "MINE": "a'b \"c\" $d `e` \\ ü", "TRITON_CACHE_DIR": "/old", "PYTORCH_CUDA_ALLOC_CONF": "old", "i": "j",
        "PATH": f"/usr/bin:{Path(sys.executable).parent}:relative::/x/shims:/bin:/usr/bin", "ENVLOCK_VERDICT": "forged",
        "_envlock_item": "hm",
    }  # fmt: skip
    told = json.loads(launched.ok("run", "--dry-run", "--json", "app", "--", "python", env=caller).out)
    got = json.loads(shim(launched, "python", "-c", ENVIRONMENT, shell=shell, env=caller).stdout)
    of_the_shell = {"_", "SHLVL", "PWD", "OLDPWD", "LC_CTYPE", "_envlock_item", "POSIXLY_CORRECT"}
    assert {k: v for k, v in got.items() if k not in of_the_shell} == {
        k: v for k, v in told["env"].items() if k not in of_the_shell
    }
    assert got["GREETING"] == f'hello {launched.env["HOME"]}\'s "house" $x'
    assert got["PATH"] == f"{launched.prefix('app')}/bin:/usr/bin:/bin"
    assert got["NCCL_NET_PLUGIN"] == "p"


def test_an_undefined_reference_is_refused_by_the_shim_as_by_run(launched: Project) -> None:
    warmed(launched)
    bare = {key: value for key, value in launched.env.items() if key != "HOME"}
    result = subprocess.run(
        [launched.layout.shim("app"), "python", "-c", ""], env=bare, capture_output=True, text=True, check=False
    )
    assert result.returncode == 125
    assert "env.set.GREETING refers to ${HOME}" in result.stderr


def test_the_fast_path_starts_no_process(launched: Project) -> None:
    warmed(launched)
    code = "import os; print(os.getpid(), os.getppid())"
    process = subprocess.Popen(
        [launched.layout.shim("app"), "python", "-c", code], env=launched.env, stdout=subprocess.PIPE, text=True
    )
    pid, parent = process.communicate()[0].split()
    assert (int(pid), int(parent)) == (process.pid, os.getpid())


def test_the_fast_path_is_taken(launched: Project, tmp_path: Path) -> None:
    warmed(launched)
    broken = tmp_path / "shim"
    text = launched.layout.shim("app").read_text().replace(sys.executable, "/nonexistent/python")
    broken.write_text(text)
    result = subprocess.run(
        ["sh", broken, "python", "-c", "print(1)"], env=launched.env, capture_output=True, check=False
    )
    assert result.stdout == b"1\n"


@pytest.mark.parametrize("code", [0, 1, 2, 7, 125, 126, 127, 255])
def test_the_exit_code_is_the_commands_own(launched: Project, code: int) -> None:
    warmed(launched)
    assert shim(launched, "python", "-c", f"raise SystemExit({code})").returncode == code
    assert launched.run("run", "app", "--", "python", "-c", f"raise SystemExit({code})").code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_command_itself(launched: Project, number: signal.Signals) -> None:
    warmed(launched)
    code = f"import signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(42)); print('up', flush=True); signal.pause()"
    for argv in ([launched.layout.shim("app")], [sys.executable, "-m", "envlock", "run", "app", "--"]):
        process = subprocess.Popen(
            [*map(os.fspath, argv), "python", "-c", code], env=launched.env, cwd=launched.root, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        assert process.wait(10) == 42
        process.stdout.close()


def test_an_unhandled_signal_is_what_the_caller_sees(launched: Project) -> None:
    warmed(launched)
    result = shim(launched, "python", "-c", "import os; os.kill(os.getpid(), 9)")
    assert result.returncode == -signal.SIGKILL


def test_a_broken_pipe_ends_the_command_as_it_would_anywhere(launched: Project) -> None:
    warmed(launched)
    ignored = int(launched.ok("run", "app", "--", "grep", "SigIgn", "/proc/self/status").out.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))


def test_stdin_is_the_commands_own(launched: Project) -> None:
    warmed(launched)
    result = shim(launched, "python", "-c", "import sys; print(sys.stdin.read())", input=b"in\xc3\xbc")
    assert result.stdout == "inü\n".encode()


@shells
def test_a_script_can_name_the_shim_in_its_first_line(launched: Project, tmp_path: Path, shell: list[str]) -> None:
    home = tmp_path / "store"  # the kernel splits a first line at spaces
    home.symlink_to(launched.layout.home)
    script = tmp_path / "job"
    script.write_text(f"#!{home}/bin/app python\nimport sys, leaf\nprint(sys.argv[1:], leaf.__version__)\n")
    script.chmod(0o755)
    warmed(launched)
    result = subprocess.run([script, "a b", ""], env=launched.env, capture_output=True, text=True, check=False)
    assert result.stdout == "['a b', ''] 1.0\n", result.stderr


def test_a_script_that_names_the_bare_shim_runs_under_the_environments_python(
    launched: Project, tmp_path: Path
) -> None:
    script = tmp_path / "job"
    home = tmp_path / "store"
    home.symlink_to(launched.layout.home)
    script.write_text(f"#!{home}/bin/app\nimport sys\nprint(sys.prefix)\n")
    script.chmod(0o755)
    result = launched.ok("run", "app", "--", os.fspath(script))
    assert result.out.strip() == os.fspath(launched.prefix("app"))


def test_no_gpu_is_said_to_a_shim_by_option_or_variable(launched: Project) -> None:
    refused = shim(launched, "python", "-c", "", name="gpu")
    assert refused.returncode == 125
    assert b"--no-gpu" in refused.stderr
    warmed(launched, "gpu")
    again = shim(launched, "python", "-c", "", name="gpu")
    assert again.returncode == 125
    assert shim(launched, "--no-gpu", "python", "-c", "print(1)", name="gpu").stdout == b"1\n"
    assert shim(launched, "python", "-c", "print(1)", name="gpu", env={"ENVLOCK_NO_GPU": "1"}).stdout == b"1\n"


def test_words_for_envlock_go_through_the_shim(launched: Project) -> None:
    result = shim(launched, "--no-gpu", "--dry-run", "python", "-c", "")
    assert result.returncode == 0
    assert b"ENVLOCK_PROFILE=app" in result.stdout


@shells
def test_the_lease_is_held_by_what_the_shim_becomes(launched: Project, shell: list[str]) -> None:
    from envlock.launch import lease

    warmed(launched)
    argv = [
        *shell,
        os.fspath(launched.layout.shim("app")),
        "python",
        "-c",
        "import time; print('up', flush=True); time.sleep(30)",
    ]
    process = subprocess.Popen(argv, env=launched.env, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.pid in lease.holders(launched.prefix("app"))
        assert lease.held(launched.prefix("app"))
    finally:
        process.kill()
        process.communicate()
    assert process.pid not in lease.holders(launched.prefix("app"))


def test_what_was_written_is_clean_to_shellcheck(launched: Project) -> None:
    warmed(launched)
    files = [launched.layout.shim("app"), Path(ticket.folder(str(launched.layout.environments("app")))) / "ticket.sh"]
    checked = subprocess.run(["shellcheck", *files], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_a_launch_adds_no_file_to_the_environment(launched: Project) -> None:
    warmed(launched)
    prefix = launched.prefix("app")
    before = sorted(prefix.rglob("*"))
    shim(launched, "python", "-c", "import leaf, leaf.cli, torch.version, envlock_guard")
    shim(launched, "leafy")
    assert sorted(prefix.rglob("*")) == before


def test_a_shim_whose_envlock_is_gone_says_so(launched: Project, tmp_path: Path) -> None:
    broken = tmp_path / "shim"
    broken.write_text(launched.layout.shim("app").read_text().replace(sys.executable, "/nonexistent/python"))
    result = subprocess.run(
        ["sh", broken, "sh", "-c", ""], env=launched.env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 125
    assert "/nonexistent/python" in result.stderr
    assert "envlock sync app" in result.stderr


def test_a_sync_with_nothing_to_do_mends_the_shim(launched: Project) -> None:
    path = launched.layout.shim("app")
    good = path.read_text()
    path.write_text(good.replace(sys.executable, "/nonexistent/python"))
    launched.ok("sync", "app")
    assert path.read_text() == good


FORBID_FORKS = """
import ctypes, os, platform, struct, sys
calls = {"x86_64": (56, 57, 58, 435), "aarch64": (220, 435)}[platform.machine()]  # clone, fork, vfork, clone3
load, equal, answer = 0x20, 0x15, 0x06  # struct sock_filter: code, jump if true, jump if false, constant
program = [(load, 0, 0, 0)]
program += [(equal, len(calls) - at, 0, number) for at, number in enumerate(calls)]
program += [(answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | 1)]  # allow; EPERM
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, ctypes.byref(Filter(len(program), ctypes.addressof(code))), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@shells
def test_the_fast_path_works_where_the_kernel_forbids_every_fork(launched: Project, shell: list[str]) -> None:
    has(shell)
    warmed(launched)
    forbidden = [sys.executable, "-c", FORBID_FORKS]
    control = [*forbidden, "/bin/sh", "-c", "x=$(true); /bin/true; echo forked"]
    assert b"forked" not in subprocess.run(control, env=launched.env, capture_output=True, check=False).stdout
    start = [shutil.which(shell[0]) or "", *shell[1:], os.fspath(launched.layout.shim("app"))]
    words = [*forbidden, *start, "python", "-c", "print('ran')"]
    done = subprocess.run(words, env=launched.env, cwd=launched.root, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr


@shells
def test_a_verification_with_gpus_stands_for_these_gpus_driver_and_boot(
    launched: Project, tmp_path: Path, shell: list[str]
) -> None:
    warmed(launched, "gpu")
    environments = str(launched.layout.environments("gpu"))
    kept = ticket.read(environments)
    assert kept is not None
    cards = [f"{ticket.GPUS}/0000:0{number}:00.0" for number in (1, 2)]
    attested = {
        "boot": ticket.first_line(ticket.BOOT_ID),
        "driver": "NVRM version: it's  580.95",
        "gpus": " ".join(cards),
        "nodes": "",
        "slices": "",
        "host": ticket.first_line(ticket.HOST),
    }
    text = ticket_text(
        {**kept[0], "attested": attested, "views": [ticket.view({})]},
        project=str(launched.root),
        home=str(launched.layout.home),
        vital=["bin"],
    )
    driver = tmp_path / "nvidia"  # stands for /proc/driver/nvidia, which only a driver can make
    (driver / "gpus").mkdir(parents=True)
    for card in cards:
        (driver / "gpus" / Path(card).name).mkdir()
    (driver / "version").write_text("NVRM version: it's  580.95\nGCC version: 12\n")
    words = ("python", "-c", "print('ran')")

    def launch(told: str) -> subprocess.CompletedProcess[bytes]:
        warmed(launched, "gpu")
        Path(ticket.folder(environments), "ticket.sh").write_text(told.replace("/proc/driver/nvidia", str(driver)))
        ticket.renew(environments, time.time() + 600)
        return shim(launched, *words, shell=shell, name="gpu")

    assert launch(text).stdout == b"ran\n"
    for changed in (
        text.replace("580.95", "575.57"),
        text.replace(attested["boot"], "00000000-another-boot"),
        text.replace("0000:02:00.0", "0000:03:00.0"),
    ):
        assert changed != text
        assert launch(changed).returncode == 125
    (driver / "version").unlink()
    assert launch(text).returncode == 125


def test_a_generation_that_a_shim_launched_is_not_collected(own: Project) -> None:
    own.ok("run", "app", "--", "true")
    ticket.renew(str(own.layout.environments("app")), time.time() + 600)
    old = own.prefix("app")
    argv = [os.fspath(own.layout.shim("app")), "python", "-c", "import time; print('up', flush=True); time.sleep(60)"]
    process = subprocess.Popen(argv, env=own.env, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        own.ok("sync", "--rebuild", "app")
        own.ok("gc", "--keep", "0")
        assert (old / "seal" / "seal.json").is_file()
    finally:
        process.kill()
        process.communicate()
    own.ok("gc", "--keep", "0")
    assert not old.exists()
