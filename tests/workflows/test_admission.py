"""What a launch is refused for depends on what it is to run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import Project
from tests.support.wheels import make_torch


@pytest.fixture
def stack(project: Project) -> Project:
    """A stack with triton, declared for a GPU."""
    make_torch(project.wheels, "2.10.0", "12.8", requires=["nvidia-cuda-runtime-cu12==12.8.90", "triton==3.6.0"])
    project.wheel("nvidia-cuda-runtime-cu12", "12.8.90")
    project.wheel("triton", "3.6.0", files={"triton/backends/nvidia/driver.py": ""})
    project.simple_profile(
        "app", more='[torch]\nversion = "2.10.0"\ncuda = "12.8"\n[gpu]\ncompute-capability = "12.0"\n'
    )
    project.ok("lock")
    project.ok("sync")
    return project


def test_a_host_without_a_compiler_may_launch_without_a_gpu(stack: Project, tmp_path: Path) -> None:
    """A minimal container has none; Triton compiles nothing when there is no GPU."""
    env = {"PATH": str(tmp_path), "CC": ""}
    verified = stack.run("verify", "app", "--tier", "static", "--json", env=env)
    failed = {check["id"] for check in verified.json["checks"] if check["status"] == "fail"}
    assert "triton.toolchain" in failed
    launched = stack.ok("run", "--no-gpu", "app", "--", "python", "-c", "print('launched')", env=env)
    assert launched.out == "launched\n"


def test_what_is_wrong_with_the_files_refuses_every_launch(stack: Project) -> None:
    (stack.site("app") / "stray.pth").write_text("import os\n")
    refused = stack.run("run", "--no-gpu", "app", "--", "true")
    assert refused.code == 125
    assert "stray.pth" in refused.err
