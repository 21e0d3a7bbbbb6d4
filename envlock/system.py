"""The one door to processes.

Effects only; no decision is taken here; changes on disk are `envlock.disk`. `subprocess` is imported by this module
alone (an import contract says so).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from envlock.errors import ToolMissing

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_PR_SET_PDEATHSIG = 1  # prctl(2)
_prctl = ctypes.CDLL(None).prctl


def _die_with_parent() -> None:
    """Let the kernel end this child when envlock is killed: an orphaned uv would go on writing into a prefix.

    A process group of its own keeps Ctrl-C from it, and so also the kill that a terminal or a scheduler sends to ours.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_running: set[subprocess.Popen[str]] = set()
_interrupted = threading.Event()
_PATIENCE = 5.0  # seconds that threads get to clean up after Ctrl-C; one that reads from a silent index may take longer


def side_by_side(work: Callable[[_Item], _Result], items: Iterable[_Item], workers: int) -> list[_Result]:
    """Return `work(item)` of every item, done by threads that may start children; the first exception is raised.

    Ctrl-C reaches the main thread alone: it ends the children of all threads, so that each thread cleans up after
    itself, and does not wait for one that waits for the network.
    """
    pool = ThreadPoolExecutor(workers)
    futures = [pool.submit(work, item) for item in items]
    try:
        return [future.result() for future in futures]
    except KeyboardInterrupt:
        _interrupted.set()
        for future in futures:
            future.cancel()
        for process in tuple(_running):
            end_group(process)
        wait(futures, timeout=_PATIENCE)
        raise
    finally:
        pool.shutdown(wait=not _interrupted.is_set(), cancel_futures=_interrupted.is_set())


class Completed(NamedTuple):
    """What a finished command left: its exit status (negative: killed by that signal) and its output."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class TimedOut(Exception):
    """A command ran past its limit and was killed with its whole process group."""

    def __init__(self, argv: Sequence[str], seconds: float, stdout: str, stderr: str) -> None:
        super().__init__(f"{argv[0]}: no end after {seconds:g} s")
        self.argv = tuple(argv)
        self.seconds = seconds
        self.stdout = stdout
        self.stderr = stderr


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    input_text: str | None = None,
    timeout: float | None = None,
    on_stderr_line: Callable[[str], None] | None = None,
    errors: str = "replace",
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run a command to its end and return what it left, whatever its exit status.

    `errors` says how output that is not UTF-8 is read ("surrogateescape" keeps file names). The child has its own
    process group; an exception here (Ctrl-C included) ends that whole group.
    Raises ToolMissing when the program is not there, TimedOut past `timeout` seconds.
    """
    words = tuple(os.fspath(word) for word in argv)
    if _interrupted.is_set():
        raise KeyboardInterrupt
    try:
        process = subprocess.Popen(
            words,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE if input_text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors=errors,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call through a function that is resolved already
        )
    except FileNotFoundError as error:
        raise ToolMissing(f"{words[0]}: not found", found=str(error)) from error
    except PermissionError as error:
        raise ToolMissing(f"{words[0]}: not executable", found=str(error)) from error
    _running.add(process)
    try:
        if on_stderr_line is None:
            stdout, stderr = process.communicate(input_text, timeout=timeout)
        else:
            stdout, stderr = _communicate_by_line(process, input_text, on_stderr_line)
    except subprocess.TimeoutExpired as error:
        end_group(process)
        stdout, stderr = process.communicate()
        raise TimedOut(words, error.timeout, stdout, stderr) from None
    except BaseException:
        end_group(process)
        raise
    finally:
        _running.discard(process)
    if _interrupted.is_set():
        raise KeyboardInterrupt
    return Completed(words, process.returncode, stdout, stderr)


def _communicate_by_line(
    process: subprocess.Popen[str], input_text: str | None, on_line: Callable[[str], None]
) -> tuple[str, str]:
    """Feed stdin, hand each stderr line on as it comes, and return all of both outputs."""
    out: list[str] = []

    def drain(stream: IO[str]) -> None:
        out.extend(stream)

    assert process.stdout is not None and process.stderr is not None
    reader = threading.Thread(target=drain, args=(process.stdout,), daemon=True)
    reader.start()
    if process.stdin is not None:
        process.stdin.write(input_text or "")
        process.stdin.close()
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        on_line(line.rstrip("\n"))
    process.wait()
    reader.join()
    return "".join(out), "".join(lines)


def end_group(process: subprocess.Popen[str], grace: float = 3.0) -> None:
    """End a child's whole process group: first asked, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return
            time.sleep(0.01)


def relay(
    argv: Sequence[str | os.PathLike[str]],
    *,
    forward: Callable[[int], None],
    foreground: bool,
    interrupts: bool = True,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a hop to a command elsewhere; return its exit status as a shell would give it.

    `forward(number)` is called for each signal that reaches envlock, to be sent after the command. In the foreground
    the hop keeps the terminal (`interrupts`: Ctrl-C is the terminal's business and not forwarded); else it gets a
    session of its own and sees no terminal at all, so that nothing but `forward` brings it a signal.
    """
    words = tuple(os.fspath(word) for word in argv)
    numbers = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT]
    if foreground and interrupts:
        numbers = [number for number in numbers if number not in (signal.SIGINT, signal.SIGQUIT)]

    def child() -> None:
        quiet = foreground and not interrupts
        signal.signal(signal.SIGINT, signal.SIG_IGN if quiet else signal.SIG_DFL)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN if quiet else signal.SIG_DFL)

    before: dict[int, object] = {number: signal.signal(number, lambda n, _frame: forward(n)) for number in numbers}
    for other in {signal.SIGINT, signal.SIGQUIT} - before.keys():
        before[other] = signal.signal(other, signal.SIG_IGN)
    outputs = [None if foreground or not os.isatty(fd) else subprocess.PIPE for fd in (1, 2)]
    try:
        process = subprocess.Popen(
            words,
            env=None if env is None else dict(env),
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=not foreground,
            preexec_fn=child,  # noqa: PLW1509 single-threaded here
        )
        copies = [
            threading.Thread(target=_copy, args=(stream.fileno(), fd), daemon=True)
            for stream, fd in ((process.stdout, 1), (process.stderr, 2))
            if stream is not None
        ]
        for thread in copies:
            thread.start()
        code = process.wait()
        for thread in copies:
            thread.join()
    except FileNotFoundError as error:
        raise ToolMissing(f"{words[0]}: not found", found=str(error)) from error
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)  # type: ignore[arg-type] # what signal.signal gave
    return 128 - code if code < 0 else code


def _copy(source: int, target: int) -> None:
    """Copy bytes from one descriptor to another until the end of the first."""
    while block := os.read(source, 65536):
        view = memoryview(block)
        while view:
            view = view[os.write(target, view) :]


def pipe(
    source: Sequence[str | os.PathLike[str]],
    sink: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
) -> tuple[Completed, Completed]:
    """Run `source | sink` and return both results (for `tar c | ... tar x`)."""
    first_words = tuple(os.fspath(word) for word in source)
    second_words = tuple(os.fspath(word) for word in sink)
    environment = None if env is None else dict(env)
    with tempfile.TemporaryFile("w+", errors="replace") as first_errors:
        try:
            first = subprocess.Popen(
                first_words, env=environment, stdout=subprocess.PIPE, stderr=first_errors, stdin=subprocess.DEVNULL
            )
            second = subprocess.Popen(
                second_words,
                env=environment,
                stdin=first.stdout,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except FileNotFoundError as error:
            raise ToolMissing(f"{error.filename}: not found", found=str(error)) from error
        assert first.stdout is not None
        first.stdout.close()
        stdout, stderr = second.communicate()
        first.wait()
        first_errors.seek(0)
        said = first_errors.read()
    return (
        Completed(first_words, first.returncode, "", said),
        Completed(second_words, second.returncode, stdout, stderr),
    )
