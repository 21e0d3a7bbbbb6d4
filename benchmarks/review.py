"""Time diff and why beside a bare interpreter start, in one run, as ratios: python benchmarks/review.py."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVLOCK = [str(Path(sys.executable).parent / "envlock"), "-C", str(ROOT)]


def best(argv, rounds=11):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    bare = best([sys.executable, "-c", "pass"])
    print(f"{'what':<52} {'time':>9}   x bare interpreter   aim")
    print(f"{'bare interpreter':<52} {bare * 1000:6.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "diff.html")
        for what, words, aim in (
            ("diff train-cu128 sglang-cu130 (65 and 197 packages)", ["diff", "train-cu128", "sglang-cu130"], 6),
            ("the same, HTML", ["diff", "train-cu128", "sglang-cu130", "--format", "html", "-o", page], 12),
            ("why sglang-cu130 triton", ["why", "sglang-cu130", "triton"], 2),
            ("envlock --help, for comparison", ["--help"], None),
        ):
            took = best([*ENVLOCK, *words])
            print(f"{what:<52} {took * 1000:6.1f} ms   {took / bare:6.1f}              {aim or '-'}")


if __name__ == "__main__":
    main()
