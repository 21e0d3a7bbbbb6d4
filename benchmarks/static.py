"""Time `verify --tier static` from a seal beside a bare interpreter, in one run: python benchmarks/static.py [NAME].

Nearly all of it is one lstat a file, shared by the cores, so it is timed with 1, 2, 4 ... of them. Sync NAME first; or
give the seal of a synced environment as `--seal FOLDER` to time it where its packages cannot be had: a tree of the same
names, sizes and times is then made of holes (nothing of it can be imported; what is looked at is the same).
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from envlock.environment import seal, stamp
from envlock.environment.distributions import site_packages
from envlock.environment.tree import scan

ROOT = Path(__file__).parent.parent
# An installed envlock has its byte code, as the standard library has: pip compiles what it installs.
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVLOCK = [sys.executable, "-c", "from envlock.__main__ import main; main()", "-C", str(ROOT)]


def once(argv, env, cores):
    begin = time.perf_counter()
    subprocess.run(
        argv, check=True, env=env, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, cores)
    )
    return time.perf_counter() - begin


def tree_of_holes(folder, home, name):
    """Make the environment that a seal describes, without its bytes, and seal it as it lies there."""
    found = seal.load((folder / "seal.json").read_text())
    prefix = home / "envs" / name / found.generation
    entries = list(read(folder / "inventory"))
    for path, size, target in entries:
        place = prefix / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(sys.executable if path.startswith("bin/python") else target)
        else:
            with place.open("wb") as file:
                file.truncate(size)
    shutil.copytree(folder, prefix / seal.FOLDER)
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\ninclude-system-site-packages = false\n")
    made = dataclasses.replace(found, prefix=str(prefix), base_python=os.path.realpath(sys.executable))
    (prefix / seal.FOLDER / "seal.json").write_text(seal.dump(made))
    facts = prefix / seal.FOLDER / "code.json"  # names the interpreter of each script
    facts.write_text(facts.read_text().replace(found.prefix, str(prefix)))
    tree = scan(prefix)
    lines = [
        stamp.lines((path, one.size, one.mtime_ns) for path, one in tree.files.items()),
        stamp.lines((path, None, mtime) for path, mtime in tree.folders.items()),
    ]
    top = [path for path in (*tree.files, *tree.folders) if "/" not in path]
    (prefix / seal.FOLDER / stamp.FILE).write_bytes(stamp.of(lines, top))
    (prefix.parent / "current").symlink_to(prefix.name)
    assert site_packages(prefix).is_dir()
    return prefix


def read(file):
    for line in file.read_text(errors="surrogateescape").splitlines():
        digest, size, _, _, path = line.split("\t", 4)
        yield path, int(size), digest[3:] if digest.startswith("-> ") else ""


def main(name, folder, rounds):
    compileall.compile_dir(ROOT / "envlock", quiet=2)
    own = tempfile.mkdtemp(prefix="envlock-bench-")
    try:
        env = dict(ENV)
        if folder is not None:
            env["ENVLOCK_HOME"] = own
            tree_of_holes(folder, Path(own), name)
        argv = [*ENVLOCK, "verify", name, "--tier", "static"]
        every = sorted(os.sched_getaffinity(0))
        once(argv, env, every)  # the first one reads and judges; what is timed is asking again
        number = 1
        while number <= len(every):
            cores = every[:number]
            times = {"bare": [], "verify": []}
            for _ in range(rounds):
                times["bare"].append(once([sys.executable, "-c", "pass"], env, cores))
                times["verify"].append(once(argv, env, cores))
            bare, ours = (statistics.median(times[key]) for key in ("bare", "verify"))
            print(
                f"{number:3} cores: bare interpreter {bare * 1000:6.1f} ms, verify {ours * 1000:6.1f} ms, "
                f"{ours / bare:5.2f} times (aim 4)"
            )
            number *= 2
    finally:
        shutil.rmtree(own, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="sglang-cu130")
    parser.add_argument("--seal", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    main(given.name, given.seal, given.rounds)
