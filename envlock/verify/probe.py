"""Running the probe: a child in the environment, bounded in time, whose death is an answer like any other."""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlock import system

PROGRAM = Path(__file__).with_name("probe_program.py")
TIMEOUT = 300.0
"""Seconds for all probes of all GPUs; importing torch on a cold network disk alone takes one minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeFacts:
    """What a probe told before it ended, and how it ended."""

    answers: tuple[Mapping[str, Any], ...]
    ended: str
    """`normally`, `exit 1`, `SIGSEGV`, `no end after 300 s`."""
    during: str
    """The probe that was running when it ended, if it did not end normally."""
    stderr: str
    """Its last lines."""

    def answer(self, probe: str) -> Mapping[str, Any] | None:
        """Return the first answer of that name."""
        return next((one for one in self.answers if one["probe"] == probe), None)


def run(
    python: Path,
    environ: Mapping[str, str],
    *,
    count: int,
    imports: Sequence[str],
    triton: bool,
    timeout: float = TIMEOUT,
    fault: str = "",
) -> ProbeFacts:
    """Probe an environment through its interpreter. `fault` makes the program misbehave, to test this very module."""
    request = {"count": count, "imports": list(imports), "triton": triton, "fault": fault}
    return _one([str(python), str(PROGRAM)], environ, json.dumps(request), timeout)


def collective(
    python: Path, environ: Mapping[str, str], *, ranks: int = 2, timeout: float = 90.0
) -> tuple[ProbeFacts, ...]:
    """Run an NCCL all-reduce, one rank a GPU, under a time limit (a broken P2P path hangs).

    NCCL takes no two ranks on one GPU, so where there is one GPU there is one rank.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with ThreadPoolExecutor(ranks) as pool:
        started = [
            pool.submit(
                _one, [str(python), str(PROGRAM), "--rank", str(rank), str(ranks), str(port)], environ, "", timeout
            )
            for rank in range(ranks)
        ]
        return tuple(rank.result() for rank in started)


def uuids(facts: ProbeFacts) -> tuple[str, ...]:
    """Return the UUIDs (no prefix) that CUDA told of the probed devices; none when one of them is untold."""
    told = [str(answer.get("uuid") or "") for answer in facts.answers if answer["probe"] == "device"]
    return tuple(told) if all(told) else ()


def _one(argv: Sequence[str], environ: Mapping[str, str], text: str, timeout: float) -> ProbeFacts:
    with tempfile.TemporaryFile("w+") as answers:
        descriptor = answers.fileno()
        os.set_inheritable(descriptor, True)
        try:
            done = system.run(
                [*argv, str(descriptor)], env=environ, input_text=text, timeout=timeout, pass_fds=(descriptor,)
            )
            ended, stderr = _ending(done.returncode), done.stderr
        except system.TimedOut as error:
            ended, stderr = f"no end after {error.seconds:g} s", error.stderr
        answers.seek(0)
        found, during = _read(answers.read())
    if ended == "normally" and during:
        ended = "an early end"
    return ProbeFacts(
        answers=tuple(found), ended=ended, during="" if ended == "normally" else during, stderr=_last(stderr)
    )


def _ending(code: int) -> str:
    import signal

    if code == 0:
        return "normally"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit {code}"


def _read(text: str) -> tuple[list[dict[str, Any]], str]:
    found: list[dict[str, Any]] = []
    during = ""
    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            continue  # the line that a crash cut short
        if not isinstance(answer, dict) or "probe" not in answer:
            continue
        if answer["probe"] == "begin":
            during = str(answer.get("name", ""))
        else:
            during = ""
            found.append(answer)
    return found, during


def _last(stderr: str) -> str:
    lines = [
        line for line in stderr.splitlines() if line.strip() and not re.match(r"\s*(warnings\.warn|W[0-9]{4})", line)
    ]
    return "\n".join(lines[-4:])[-800:]
