"""Time syncing, locking and launching beside uv, in one run, as ratios: python benchmarks/sync.py [--rounds 3].

Warm caches throughout: the first round of each is thrown away. Needs the shipped stacks in uv's cache (sync once).
"""

from __future__ import annotations

import argparse
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


def timed(argv, rounds, before=lambda: None, **more):
    times = []
    for _ in range(rounds + 1):
        before()
        begin = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


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
        store = {**os.environ, "ENVLOCK_HOME": str(work / "store")}
        venv = work / "venv"

        def uv_sync(*more):
            python = shutil.which("python3.11") or sys.executable
            script = f'"{binary}" venv -q "{venv}" --python "{python}" && "{binary}" pip sync -q --python "{venv}" '
            return ["sh", "-c", f'{script} --require-hashes {" ".join(more)} "{hashed}"']

        def clear():
            shutil.rmtree(venv, ignore_errors=True)

        ours = timed([*ENVLOCK, "sync", "--rebuild", "--offline", name], rounds, env=store)
        plain = timed(uv_sync(), rounds, clear, env=env)
        row(f"sync {name}, warm: with byte code and seal", ours, plain, "at most 1.5")
        compiled = timed(uv_sync("--compile-bytecode"), 1, clear, env=env)
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
