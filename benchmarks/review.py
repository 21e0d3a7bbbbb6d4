"""Time diff, why and rollback beside a bare interpreter start, in one run, as ratios: python benchmarks/review.py."""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVLOCK = [str(Path(sys.executable).parent / "envlock")]
# An installed envlock has its byte code, as the standard library has: pip compiles what it installs.
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def once(argv, cwd=ROOT, env=ENV):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def alternating(jobs, rounds=21):
    """Return the median of each job, one after the other in every round, so that a busy moment meets all of them."""
    times = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append(job())
    return {name: statistics.median(taken) for name, taken in times.items()}


def two_generations(folder):
    """Make a project with two generations of the committed smoke profile; rolling to and fro is what is timed."""
    for part in ("profiles", "locks"):
        (folder / part).mkdir()
        (folder / part / "smoke.toml").write_text((ROOT / part / "smoke.toml").read_text())
    base = ROOT / "profiles" / "base.toml"
    if base.is_file():
        (folder / "profiles" / "base.toml").write_text(base.read_text())
    env = {**ENV, "ENVLOCK_HOME": str(folder / "store")}
    for _ in range(2):
        once([*ENVLOCK, "sync", "--rebuild", "smoke"], cwd=folder, env=env)
    turn = [0]

    def back():
        turn[0] += 1
        return once([*ENVLOCK, "rollback", "smoke", str(1 + turn[0] % 2)], cwd=folder, env=env)

    return back


def main():
    compileall.compile_dir(ROOT / "envlock", quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "diff.html")
        both = ["diff", "train-cu128", "sglang-cu130"]
        (Path(folder) / "project").mkdir()
        jobs = {
            "bare interpreter": lambda: once([sys.executable, "-c", "pass"]),
            "diff train-cu128 sglang-cu130 (65 and 197 packages)": lambda: once([*ENVLOCK, *both]),
            "the same, HTML": lambda: once([*ENVLOCK, *both, "--format", "html", "-o", page]),
            "why sglang-cu130 triton": lambda: once([*ENVLOCK, "why", "sglang-cu130", "triton"]),
            "rollback smoke": two_generations(Path(folder) / "project"),
            "envlock --help, for comparison": lambda: once([*ENVLOCK, "--help"]),
        }
        aims = dict(zip(jobs, (None, 6, 12, 2, 2, None), strict=True))
        took = alternating(jobs)
    bare = took["bare interpreter"]
    print(f"{'what':<52} {'median':>9}   x bare interpreter   aim")
    for name, seconds in took.items():
        print(f"{name:<52} {seconds * 1000:6.1f} ms   {seconds / bare:6.2f}              {aims[name] or '-'}")


if __name__ == "__main__":
    main()
