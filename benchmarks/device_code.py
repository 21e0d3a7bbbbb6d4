"""Read the device code of every library of an environment, beside `cuobjdump --list-elf` over the same files.

    python benchmarks/device_code.py PREFIX [--cuobjdump PATH]

Every file is read once before, so that both meet a warm cache. Prints both times, their ratio, and whether the answers
are the same (targets of machine code, counted). Without cuobjdump only envlock's own time is told.
"""

import argparse
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

from envlock.environment.distributions import site_packages
from envlock.verify.libraries import is_shared, read_file


def libraries(site: Path) -> list[str]:
    found = []
    for folder, _, names in os.walk(site):
        found += [f"{folder}/{name}" for name in names if is_shared(name) and not os.path.islink(f"{folder}/{name}")]
    return sorted(found)


def ours(paths: list[str]) -> dict[str, Counter[str]]:
    found = {}
    for path in paths:
        counts: Counter[str] = Counter()
        for container, number in read_file(path).code.containers:
            for target in container:
                if target.kind == "sass":
                    counts[f"{target.arch}{target.suffix.replace('f', '')}"] += number
        found[path] = counts
    return found


def theirs(paths: list[str], cuobjdump: str) -> dict[str, Counter[str]]:
    found = {}
    for path in paths:
        done = subprocess.run([cuobjdump, "--list-elf", path], capture_output=True, text=True, check=False)
        found[path] = Counter(re.findall(r"\.sm_(\d+a?)f?\.cubin", done.stdout))
    return found


def timed(action, *arguments):
    began = time.perf_counter()
    result = action(*arguments)
    return result, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump"))
    options = parser.parse_args()
    paths = libraries(site_packages(options.prefix))
    size = sum(os.path.getsize(path) for path in paths)
    ours(paths)
    found, mine = timed(ours, paths)
    print(f"{len(paths)} libraries, {size / 1e9:.1f} GB")
    print(f"envlock    {mine:8.2f} s  {sum(sum(counts.values()) for counts in found.values())} cubins")
    if options.cuobjdump is None:
        return
    expected, other = timed(theirs, paths, options.cuobjdump)
    print(f"cuobjdump  {other:8.2f} s  {sum(sum(counts.values()) for counts in expected.values())} cubins")
    print(f"ratio      {other / mine:8.1f}")
    wrong = [path for path in paths if found[path] != expected[path]]
    print("same answer" if not wrong else f"DIFFERENT: {wrong[:3]}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
