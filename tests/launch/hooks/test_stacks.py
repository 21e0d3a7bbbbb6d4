"""Hooks on the real training stack: every rank of torchrun and accelerate, and a Jupyter kernel. Gigabytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[3]
RANK = """
import os, sys
import envlock_guard
envlock_guard.require(os.environ["ENVLOCK_PROFILE"])
import torch
line = f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} {sys.executable} {torch.version.cuda} {sys.argv[1:]}\\n"
os.write(1, line.encode())
"""


class Stack:
    """The committed profile with a kernel beside it, synced into a store of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("profiles", "locks"):
            shutil.copytree(ROOT / folder, root / folder)
        (root / "profiles" / "notebook.toml").write_text('extends = "train-cu128"\nrequirements = ["ipykernel"]\n')
        (root / "rank.py").write_text(RANK)
        compiled = ROOT / ".envlock" / "cache" / "bytecode"
        if compiled.is_dir():  # `make run` has compiled torch in this checkout already: half a minute saved
            shutil.copytree(compiled, root / ".envlock" / "cache" / "bytecode", copy_function=os.link)
        dropped = ("ENVLOCK_", "PYTHON", "VIRTUAL", "UV_")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self.env["NPROC_PER_NODE"] = "2"
        self.envlock("lock", "notebook")
        self.envlock("sync", "notebook")

    def envlock(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "envlock", *words],
            cwd=self.root,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self) -> str:
        return str((self.root / ".envlock" / "envs" / "notebook" / "current").resolve() / "bin" / "python")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    made = Stack(tmp_path_factory.mktemp("stack"))
    yield made
    shutil.rmtree(made.root / ".envlock")


@pytest.mark.parametrize("words", [("torchrun",), ("torchrun", "--each-rank"), ("accelerate",)])
def test_every_rank_runs_in_the_environment(stack: Stack, words: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "start"
    stack.envlock("hook", words[0], "notebook", *words[1:], "--no-gpu", "-o", str(script))
    option = "--main_process_port=0" if words[0] == "accelerate" else "--standalone"
    env = {**stack.env, "PYTHON_EXEC": "/usr/bin/python3", "PYTHONPATH": "/nowhere"}  # what torchrun would believe
    done = subprocess.run(
        [script, option, stack.root / "rank.py", "a b", "--lr=1"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    assert said == [f"rank {rank} of 2 {stack.python()} 12.8 ['a b', '--lr=1']" for rank in (0, 1)]


def test_a_kernel_starts_in_the_environment(stack: Stack, tmp_path: Path) -> None:
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    stack.envlock("hook", "jupyter", "notebook", "--no-gpu", "-o", f"{tmp_path}/")
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path)], ensure_native_kernel=False)
    assert list(specs.find_kernel_specs()) == ["notebook"]
    manager = KernelManager(kernel_name="notebook", kernel_spec_manager=specs)
    manager.start_kernel(env={**stack.env, "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, cwd=str(tmp_path))
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        said: list[str] = []
        code = "import sys, torch, os; print(torch.version.cuda, sys.executable, os.environ.get('LD_LIBRARY_PATH'))"

        def heard(message: dict[str, dict[str, str]]) -> None:
            said.append(message["content"].get("text", ""))

        reply = client.execute_interactive(code, timeout=60, output_hook=heard)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok"
    assert "".join(said) == f"12.8 {stack.python()} None\n"
