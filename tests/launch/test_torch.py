"""Launching the real training stack: torchrun's ranks under the guard, and an import as fast as it gets. Gigabytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """The committed train-cu128, synced into a store of its own."""
    root = tmp_path_factory.mktemp("train")
    for folder in ("profiles", "locks", "examples", "container"):
        shutil.copytree(ROOT / folder, root / folder)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ENVLOCK_", "PYTHON", "VIRTUAL"))}
    run(root, env, "sync", "train-cu128")
    yield root, env
    shutil.rmtree(root / ".envlock")


def run(root: Path, env: dict[str, str], *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envlock", *words]
    done = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_the_ranks_of_torchrun_agree_and_train(train: tuple[Path, dict[str, str]]) -> None:
    root, env = train
    words = ("torchrun", "--nproc-per-node", "2", "examples/ddp_step.py")
    said = run(root, env, "run", "--no-gpu", "train-cu128", "--", *words).stdout
    for rank in (0, 1):
        assert f"rank {rank} of 2 on cpu, torch 2.10.0+cu128: step 10" in said


def test_the_examples_say_no_to_other_interpreters_in_words(train: tuple[Path, dict[str, str]]) -> None:
    root, env = train
    for python in ("/usr/bin/python3", str(root / ".envlock/envs/train-cu128/current/bin/python")):
        for example in ("train_step.py", "ddp_step.py"):
            done = subprocess.run(
                [python, root / "examples" / example], env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 125
            assert "envlock run train-cu128 -- " in done.stderr
            assert "Traceback" not in done.stderr


def test_a_polluted_caller_changes_nothing(train: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root, env = train
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')\n")
    polluted = {**env, "PYTHONPATH": str(tmp_path), "LD_PRELOAD": "", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
    said = run(root, polluted, "run", "--no-gpu", "train-cu128", "--", "python", "examples/train_step.py").stdout
    assert "torch 2.10.0+cu128, CUDA build 12.8" in said
    assert "20 steps in" in said


def test_importing_torch_adds_no_file(train: tuple[Path, dict[str, str]]) -> None:
    root, env = train
    prefix = (root / ".envlock/envs/train-cu128/current").resolve()
    before = sum(len(files) for _, _, files in os.walk(prefix))
    code = "import torch, transformers, accelerate, torch._inductor, torch._dynamo; print(torch.version.cuda)"
    shim = root / ".envlock/bin/train-cu128"
    done = subprocess.run([shim, "--no-gpu", "python", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "12.8\n"
    assert sum(len(files) for _, _, files in os.walk(prefix)) == before
