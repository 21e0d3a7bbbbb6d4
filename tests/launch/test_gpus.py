"""Several launches on one host, each on cards of its own: with a stand-in for NVML, real locks and real processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.project import Project

SHOW = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
STAY = f"{SHOW}\nimport time; time.sleep(60)"


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("stand_in_nvml.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "ENVLOCK_GPU_LOCKS": str(folder)}


def test_cards_are_handed_on_by_uuid_and_held_until_the_end(launched: Project, nvml: dict[str, str]) -> None:
    first = launched.start("run", "--gpus", "0-1", "app", "--", "python", "-c", STAY, env=nvml)
    assert first.stdout is not None
    assert first.stdout.readline() == "GPU-00000000-stand-in,GPU-00000001-stand-in\n"
    second = launched.run("run", "--gpus", "1,3", "app", "--", "python", "-c", SHOW, env=nvml)
    assert second.code == 125
    assert "GPU-00000001-stand-in is held by another launch" in second.err
    assert f"profile app, pid {first.pid}" in second.err
    assert launched.ok("run", "--gpus", "2-3", "app", "--", "python", "-c", SHOW, env=nvml).out.count("GPU-") == 2
    listed = launched.ok("gpus", "--json", env=nvml).json["gpus"]
    assert [None if card["holder"] is None else card["holder"]["pid"] for card in listed] == [
        first.pid, first.pid, None, None,
    ]  # fmt: skip
    assert "free" in launched.ok("gpus", env=nvml).out
    first.kill()
    first.communicate()
    assert launched.ok("run", "--gpus", "0-1", "app", "--", "python", "-c", SHOW, env=nvml).out.count("GPU-") == 2


def test_a_card_that_is_not_there_is_a_usage_error(launched: Project, nvml: dict[str, str]) -> None:
    result = launched.run("run", "--gpus", "0-4", "app", "--", "true", env=nvml)
    assert result.code == 2
    assert "no such GPU: 4" in result.err


def test_a_gpu_list_without_a_gpu_makes_no_sense(launched: Project, nvml: dict[str, str]) -> None:
    assert launched.run("run", "--no-gpu", "--gpus", "0", "app", "--", "true", env=nvml).code == 2
