from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envlock.container.hops import LxcAttach, Ssh
from envlock.container.transport import CONNECT_SECONDS, Transport, ssh, tree_digest
from envlock.errors import TransportError

# Bytes, not characters: what the kernel takes as an argument is anything but NUL.
HOSTILE = st.one_of(
    st.sampled_from(
        ["", " ", "a b", "it's", '"', "$HOME", "`id`", "$(id)", "x\ny", "*", "~", "-n", "--", "a=b", "\\", "!!"]
    ),
    st.binary(max_size=10).map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))),
)
ECHO = "import os, sys; sys.stdout.write('\\0'.join(os.fsencode(a).hex() for a in sys.argv[1:]))"
CALL = """
import sys
from envlock.container.hops import LxcAttach
from envlock.container.transport import Transport, ssh
hops = [ssh(w[4:]) if w.startswith("ssh ") else LxcAttach(name=w.split()[1]) for w in eval(sys.argv[1])]
sys.exit(Transport(hops).call(sys.argv[2:]))
"""


def caller(transport: Transport, *argv: str) -> list[str]:
    """Return a command that calls `argv` through `transport` on its own stdin, stdout, stderr and signals."""
    return [sys.executable, "-c", CALL, repr([str(hop) for hop in transport.hops]), *argv]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HOSTILE, max_size=20))
def test_hostile_arguments_arrive_as_they_are(transport: Transport, arguments: list[str]) -> None:
    done = transport.run(("python3", "-c", ECHO, *arguments))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\0".join(os.fsencode(argument).hex() for argument in arguments)


def test_the_callers_environment_stays_out(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOSTILE_X", "LC_ALL", "LD_LIBRARY_PATH_X", "PYTHONPATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "leak")
    done = transport.run(("env",), env={"GIVEN": "a 'b'\nc"})
    assert "leak" not in done.stdout
    assert "GIVEN=a 'b'\nc\n" in done.stdout
    assert "HOME=/root\n" in done.stdout


@pytest.mark.parametrize("code", [0, 1, 2, 7, 125, 126, 127, 255])
def test_exit_codes_arrive(transport: Transport, code: int) -> None:
    assert transport.run(("sh", "-c", f"exit {code}")).returncode == code
    assert subprocess.run(caller(transport, "sh", "-c", f"exit {code}"), check=False).returncode == code


def test_streams_stay_apart_and_whole(transport: Transport) -> None:
    data = bytes(range(256)) * 4096
    done = subprocess.run(
        caller(transport, "sh", "-c", "cat; echo aside >&2"), input=data, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"aside\n")


def test_a_command_that_is_not_there_is_said_as_a_shell_says_it(transport: Transport) -> None:
    assert subprocess.run(caller(transport, "/no/such"), capture_output=True, check=False).returncode == 127


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_arrive_and_the_death_is_told(transport: Transport, number: signal.Signals) -> None:
    process = subprocess.Popen(
        caller(transport, "sh", "-c", "echo up; exec sleep 60"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(timeout=20) == 128 + number
    process.stdout.close()


def test_a_signal_that_is_caught_lets_the_command_finish(transport: Transport) -> None:
    script = (
        "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(9))\nprint('up', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        caller(transport, "python3", "-c", script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.terminate()
    assert process.wait(timeout=20) == 9
    process.stdout.close()


def test_a_terminal_is_a_terminal_and_ctrl_c_reaches_the_command(transport: Transport) -> None:
    script = 'test -t 0 && test -t 1 && echo tty; trap "echo caught; exit 5" INT; while :; do sleep 0.1; done'
    pid, master = pty.fork()
    if pid == 0:
        argv = caller(transport, "sh", "-c", script)
        os.execv(argv[0], argv)
    seen = b""
    sent = False
    limit = time.monotonic() + 20
    while b"caught" not in seen and time.monotonic() < limit:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 4096)
            except OSError:
                break
        if b"tty" in seen and not sent:
            time.sleep(0.2)
            os.write(master, b"\x03")
            sent = True
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master)
    assert b"tty" in seen and b"caught" in seen
    assert status == 5


def test_secrets_are_in_the_environment_but_in_no_process_table(transport: Transport) -> None:
    value = "tok'en \n$x"
    script = CALL.replace("call(sys.argv[2:])", f"call(sys.argv[2:], secret={{'TOKEN': {value!r}}})")
    check = "import os, subprocess; print(repr(os.environ['TOKEN'])); print(subprocess.run(['ps', '-eo', 'args'], capture_output=True, text=True).stdout) if os.path.exists('/bin/ps') else None; print(os.listdir('/run/envlock'))"
    argv = [sys.executable, "-c", script, repr([str(hop) for hop in transport.hops]), "python3", "-c", check]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    first, _, rest = done.stdout.partition("\n")
    assert first == repr(value), done.stderr
    assert ".env" not in rest.splitlines()[-1]


def test_trees_are_pushed_with_modes_once_and_switched_whole(transport: Transport, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "tool").write_text("#!/bin/sh\necho one\n")
    (tree / "bin" / "tool").chmod(0o755)
    (tree / "secret").write_text("s")
    (tree / "secret").chmod(0o600)
    (tree / "link").symlink_to("bin/tool")
    target = f"/tmp/envlock-push-{tree_digest(tree)}-{os.getpid()}/tree"
    try:
        assert transport.push(tree, target) is True
        assert transport.push(tree, target) is False
        assert transport.run((f"{target}/link",)).stdout == "one\n"
        modes = transport.run(("stat", "-c", "%a %u", f"{target}/bin/tool", f"{target}/secret")).stdout
        assert modes == "755 0\n600 0\n"
        (tree / "bin" / "tool").write_text("#!/bin/sh\necho two\n")
        assert transport.push(tree, target) is True
        assert transport.run((f"{target}/bin/tool",)).stdout == "two\n"
        assert len(transport.run(("ls", "-A", target.rpartition("/")[0])).stdout.split()) == 2
    finally:
        transport.run(("rm", "-rf", target.rpartition("/")[0]))


def test_a_folder_that_was_not_pushed_is_not_replaced(transport: Transport, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    target = f"/tmp/envlock-theirs-{os.getpid()}"
    transport.need(("mkdir", "-p", target), what="mkdir")
    try:
        with pytest.raises(TransportError) as caught:
            transport.push(tmp_path / "tree", target)
        assert "did not push" in "\n".join(caught.value.details)
    finally:
        transport.run(("rm", "-rf", target))


def test_files_are_written_whole_with_their_mode(transport: Transport) -> None:
    path = f"/tmp/envlock-write-{os.getpid()}/a/b"
    try:
        transport.write(path, "line's\n$x", mode="600")
        assert transport.read(path) == "line's\n$x"
        assert transport.run(("stat", "-c", "%a", path)).stdout == "600\n"
        assert transport.read(f"{path}.no") is None
    finally:
        transport.run(("rm", "-rf", f"/tmp/envlock-write-{os.getpid()}"))


def test_a_command_without_end_is_told_as_such(transport: Transport) -> None:
    with pytest.raises(TransportError, match="did not end within 1 s"):
        transport.run(("sleep", "20"), timeout=1)


@pytest.mark.lxc
@pytest.mark.sshd
def test_the_hop_that_failed_is_named_with_what_it_said(loopback: Path, guest: Path) -> None:
    closed = Ssh(destination="root@127.0.0.1", options=("-p", "1", "-o", "BatchMode=yes"))
    with pytest.raises(TransportError, match=r"hop 1 of 2, ssh root@127\.0\.0\.1: failed") as first:
        Transport([closed, LxcAttach(name="envlock-test")]).run(("true",))
    assert "refused" in "\n".join(first.value.details)
    with pytest.raises(TransportError, match="hop 2 of 2, lxc-attach no-such: failed") as second:
        Transport([ssh("loop"), LxcAttach(name="no-such")]).run(("true",))
    assert second.value.hint is not None and "envlock container start no-such" in second.value.hint


@pytest.mark.sshd
def test_one_connection_serves_many_commands(loopback: Path) -> None:
    transport = Transport([ssh("loop")])
    transport.run(("true",))
    began = time.monotonic()
    done = subprocess.run(
        ["ssh", *ssh("loop").options, "-O", "check", "loop"], capture_output=True, text=True, check=False
    )
    assert "Master running" in done.stderr
    assert time.monotonic() - began < CONNECT_SECONDS
