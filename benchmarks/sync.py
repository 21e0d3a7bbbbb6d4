"""Time syncing, locking and launching beside uv, in one run, as ratios: python benchmarks/sync.py [--rounds 3].

Warm caches throughout: the first round of each is thrown away. Needs the shipped stacks in uv's cache (sync once).
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from envlock.layout import Layout
from envlock.lock.files import load_lock
from envlock.resolve import uv
from envlock.review.exports import requirements

ROOT = Path(__file__).parent.parent
ENVLOCK = [str(Path(sys.executable).parent / "envlock"), "-C", str(ROOT)]  # as people type it


def timed(argv, rounds, **more):
    times = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        once(argv, **more)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def once(argv, **more):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def in_turns(one, other, rounds):
    """Return the median of each; the first round is thrown away where there are more."""
    times = ([], [])
    for _ in range(rounds + (rounds > 1)):
        for job, taken in zip((one, other), times, strict=True):
            begin = time.perf_counter()
            job()
            taken.append(time.perf_counter() - begin)
    return tuple(statistics.median(taken[rounds > 1 :]) for taken in times)


def row(what, ours, theirs, aim):
    print(f"{what:<58} {ours:8.3f} s {theirs:8.3f} s   {ours / theirs:6.2f}   {aim}")


def main(rounds):
    binary = str(uv.binary())
    env = {**uv.environment(os.environ), "PATH": os.environ["PATH"]}
    work = Path(tempfile.mkdtemp(prefix="envlock-bench-"))
    print(f"{'what':<58} {'envlock':>10} {'uv':>10}   {'ratio':>6}   aim")
    try:
        name = "sglang-cu130"
        lock, _ = load_lock(Layout(ROOT), name)
        hashed = work / "requirements.txt"
        hashed.write_text(requirements(lock, {}))
        store = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        store["ENVLOCK_HOME"] = str(work / "store")

        number = itertools.count()

        def uv_sync(*more):
            python, venv = shutil.which("python3.11") or sys.executable, work / f"venv-{next(number)}"
            script = f'"{binary}" venv -q "{venv}" --python "{python}" && "{binary}" pip sync -q --python "{venv}" '
            once(["sh", "-c", f'{script} --require-hashes {" ".join(more)} "{hashed}"'], env=env)

        def our_sync():
            once([*ENVLOCK, "sync", "--rebuild", "--offline", name], env=store)

        # In turns, each into a new folder, and nothing is removed between: a removal keeps the file system busy for
        # seconds after it has returned.
        our_sync()
        ours, plain = in_turns(our_sync, uv_sync, rounds)
        row(f"sync {name}, warm: with byte code and seal", ours, plain, "at most 1.5")
        ours, compiled = in_turns(our_sync, lambda: uv_sync("--compile-bytecode"), 1)
        row("the same, uv with --compile-bytecode", ours, compiled, "at most 0.2")

        project = work / "project"
        project.mkdir()
        pins = "".join(f'  "{p.name}=={p.version}",\n' for p in lock.packages)
        (project / "pyproject.toml").write_text(
            f'[project]\nname = "x"\nversion = "0"\nrequires-python = "==3.11.*"\ndependencies = [\n{pins}]\n'
            '[tool.uv]\nprerelease = "allow"\n'
            "environments = [\"sys_platform == 'linux' and platform_machine == 'x86_64'\"]\n"
        )
        done = subprocess.run([binary, "lock", "-q"], cwd=project, env=env, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            subprocess.run([binary, "sync", "-q", "--frozen"], cwd=project, env=env, check=True)
            ours = timed([*ENVLOCK, "sync", name], rounds * 3, env=store)
            theirs = timed([binary, "sync", "--frozen"], rounds * 3, cwd=project, env=env)
            row("sync with nothing to do", ours, theirs, "below 1")
            ours = timed([*ENVLOCK, "lock", name], rounds * 3, env=store)
            theirs = timed([binary, "lock"], rounds * 3, cwd=project, env=env)
            row("lock with nothing changed", ours, theirs, "below 1")
        else:
            print(f"uv could not lock the same set as a project: {done.stderr.strip().splitlines()[-1]}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    main(parser.parse_args().rounds)
