"""What a launch costs, side by side in one run: bare interpreter, shim, envlock run, uv run, poetry run, pdm run.

    python benchmarks/launch.py [PROFILE] [--torch] [--json]

PROFILE (default: smoke) must be synced. Poetry and PDM are installed into a scratch environment by uv. With --torch,
`import torch` is timed against an environment of the same packages made by `uv pip install --compile-bytecode`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from uv import find_uv_bin

from envlock.environment import store
from envlock.layout import Layout

ROOT = Path(__file__).resolve().parent.parent
GUARD = (
    "import sys; from time import perf_counter as now, process_time as cpu; a, b = now(), cpu(); "
    "import envlock_guard; envlock_guard.require(sys.argv[1]); print((now() - a) * 1e3, (cpu() - b) * 1e3)"
)


def quietly(argv, env, cwd):
    subprocess.run(argv, env=env, cwd=cwd, check=True, capture_output=True)


def once(argv, env, cwd):
    begin = time.perf_counter()
    done = subprocess.run(argv, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    taken = (time.perf_counter() - begin) * 1e3
    if done.returncode:
        raise SystemExit(f"{argv}: {done.returncode}\n{done.stderr.decode()}")
    return taken


def side_by_side(ways, repeat, slow):
    """Time each way in turn, round after round, so that the machine's moods fall on all of them alike."""
    times = {name: [] for name in ways}
    for number in range(repeat + 1):
        for name, (argv, env, cwd) in ways.items():
            if name in slow and number > repeat // 8:
                continue
            taken = once(argv, env, cwd)
            if number:
                times[name].append(taken)
    return {name: {"median": statistics.median(found), "best": min(found)} for name, found in times.items()}


def others(folder, python, uv, env):
    """Make a small project for uv, poetry and pdm, each with the environment beside it, and return how to run."""
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "bench"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = ["six==1.17.0"]\n'
        "[tool.uv]\npackage = false\n[tool.poetry]\npackage-mode = false\n[tool.pdm]\ndistribution = false\n"
    )
    tools = folder / "tools"
    quietly([uv, "venv", "--python", python, tools], env, folder)
    quietly(
        [uv, "pip", "install", "--python", tools / "bin/python", "--compile-bytecode", "poetry", "pdm"], env, folder
    )
    quietly([uv, "sync", "--python", python], env, folder)
    mine = {**env, "POETRY_VIRTUALENVS_IN_PROJECT": "true", "PDM_CHECK_UPDATE": "false"}
    quietly([tools / "bin/pdm", "use", "-f", folder / ".venv/bin/python"], mine, folder)
    run = ("python", "-c", "pass")
    return {
        "uv run": ([uv, "run", *run], env, folder),
        "uv run --no-sync": ([uv, "run", "--no-sync", *run], env, folder),
        "poetry run": ([tools / "bin/poetry", "run", *run], mine, folder),
        "pdm run": ([tools / "bin/pdm", "run", *run], mine, folder),
    }


def guard(shim, env, name, ranks):
    """Return the guard's milliseconds (wall, cpu) in each of so many processes started at once."""
    argv = [shim, "python", "-c", GUARD, name]
    started = [subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) for _ in range(ranks)]
    return [tuple(map(float, process.communicate()[0].split())) for process in started]


def storm(argv, env, cwd, ranks):
    begin = time.perf_counter()
    started = [subprocess.Popen(argv, env=env, cwd=cwd) for _ in range(ranks)]
    for process in started:
        process.wait()
    return (time.perf_counter() - begin) * 1e3


def torch_times(seal, python, uv, folder, shim, env):
    beside = folder / "uv-torch"
    quietly([uv, "venv", "--python", python, beside], env, folder)
    listed = [f"{package.name}=={package.version}" for package in seal.packages]
    begin = time.perf_counter()
    quietly(
        [uv, "pip", "install", "--python", beside / "bin/python", "--no-deps", "--compile-bytecode", *listed],
        env,
        folder,
    )
    made = time.perf_counter() - begin
    code = "from time import perf_counter as now; a = now(); import torch; print(now() - a)"
    ways = {"envlock": [shim, "python", "-c", code], "uv --compile-bytecode": [beside / "bin/python", "-c", code]}
    times = {name: [] for name in ways}
    for number in range(8):
        for name, argv in ways.items():
            taken = float(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)
            if number:
                times[name].append(taken * 1e3)
    return {name: {"median": statistics.median(t), "best": min(t)} for name, t in times.items()}, made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("profile", nargs="?", default="smoke")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=40)
    words = parser.parse_args()
    home = os.environ.get("ENVLOCK_HOME")
    layout = Layout(Path(os.environ.get("ENVLOCK_PROJECT", ROOT)), Path(home) if home else None)
    name = words.profile
    prefix = store.current_prefix(layout, name)
    seal = store.read_seal(prefix)
    python, shim, uv = prefix / "bin/python", layout.shim(name), find_uv_bin()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "ENVLOCK"))}
    env |= {"ENVLOCK_NO_GPU": "1"} | ({"ENVLOCK_HOME": home} if home else {})
    envlock = Path(sys.executable).with_name("envlock")
    run = ("python", "-c", "pass")
    before = sum(1 for _ in prefix.rglob("*"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ways = {
            "bare interpreter": ([python, "-c", "pass"], env, layout.project),
            "shim": ([shim, *run], env, layout.project),
            "envlock run": ([envlock, "run", name, "--", *run], env, layout.project),
            **others(folder, seal.base_python, uv, env),
        }
        times = side_by_side(ways, words.repeat, {"poetry run", "pdm run"})
        one = [guard(shim, env, name, 1)[0] for _ in range(12)]
        eight = [item for _ in range(4) for item in guard(shim, env, name, 8)]
        storms = {
            key: statistics.median(storm(ways[key][0], env, layout.project, 8) for _ in range(7))
            for key in ("bare interpreter", "shim")
        }
        torch = torch_times(seal, seal.base_python, uv, folder, shim, env) if words.torch else None
    bare = {kind: times["bare interpreter"][kind] for kind in ("median", "best")}
    uv_adds = {kind: times["uv run"][kind] - bare[kind] for kind in bare}
    added = {
        key: {kind: value[kind] - bare[kind] for kind in bare}
        | {"of uv": (value["best"] - bare["best"]) / uv_adds["best"]}
        for key, value in times.items()
    }
    result = {
        "profile": name, "files": seal.files, "ms": times, "added": added,
        "guard": {"one": _spread(one), "eight": _spread(eight)}, "eight at once, ms": storms,
        "files added by all these launches": sum(1 for _ in prefix.rglob("*")) - before,
        "import torch, ms": None if torch is None else torch[0],
    }  # fmt: skip
    if words.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{name}: {seal.files} files; milliseconds, {words.repeat} rounds side by side")
    print(f"{'':18}{'median':>9}{'best':>9}{'added':>9}{'of what uv run adds':>22}")
    for key, value in times.items():
        extra = added[key]
        print(f"{key:18}{value['median']:9.1f}{value['best']:9.1f}{extra['best']:9.1f}{extra['of uv']:21.2f}x")
    for key in ("one", "eight"):
        (wall, cpu), (best_wall, best_cpu) = result["guard"][key]
        label = f"guard, {key} process{'es at once' if key == 'eight' else ''}"
        print(f"{label}: median {wall:.2f} ms ({cpu:.2f} of CPU), best {best_wall:.2f} ms ({best_cpu:.2f} of CPU)")
    print(f"eight at once: bare {storms['bare interpreter']:.0f} ms, shim {storms['shim']:.0f} ms")
    print(f"files that all these launches added to the environment: {result['files added by all these launches']}")
    if torch is not None:
        for key, value in torch[0].items():
            print(f"import torch, {key}: median {value['median']:.0f} ms, best {value['best']:.0f} ms")
        print(f"(making that environment with uv took {torch[1]:.0f} s)")


def _spread(pairs):
    """Return the medians and the best of (wall, cpu)."""
    return [[how(item[at] for item in pairs) for at in (0, 1)] for how in (statistics.median, min)]


if __name__ == "__main__":
    main()
