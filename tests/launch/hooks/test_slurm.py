"""Slurm's hook on a real one-node Slurm: job script, task prolog, prolog. As root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.hooks.conftest import Write
from tests.support import slurm as real
from tests.support.project import Project

pytestmark = pytest.mark.slurm
SHOW = "import os, sys; print(sys.prefix, os.environ['ENVLOCK_VERDICT'], os.environ['SLURM_PROCID'])"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real.Slurm]:
    if missing := real.missing():
        pytest.fail(f"{', '.join(missing)} not installed: .ci/debian-packages names slurm-wlm and munge")
    with real.cluster(tmp_path_factory.mktemp("slurm") / "one") as made:
        yield made


def test_the_job_script_launches_through_envlock(
    slurm: real.Slurm, launched: Project, write: Write, tmp_path: Path
) -> None:
    job, task_prolog, _ = write("slurm", "--", "python", "-c", SHOW)
    assert str(task_prolog) in job.read_text()
    done = slurm.run("sbatch", "--wait", "-o", tmp_path / "out", job)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == f"{launched.prefix('app')} pass 0\n"


def test_the_task_prolog_ends_a_task_where_the_environment_is_not_in_order(
    slurm: real.Slurm, own: Project, write: Write
) -> None:
    _, task_prolog, _ = write("slurm", project=own)
    words = ("srun", f"--task-prolog={task_prolog}", "echo", "ran")
    assert slurm.run(*words).stdout == "ran\n"
    (own.site("app") / "leaf" / "cli.py").write_text("changed = True\n")
    done = slurm.run(*words)
    assert done.returncode != 0
    assert "refuses to launch app" in done.stdout
    assert "envlock sync --rebuild app" in done.stdout
    assert "ran" not in done.stdout.split()
    assert slurm.state() == "idle"


def test_the_prolog_drains_a_node_for_jobs_that_ask_for_the_profile_only(
    slurm: real.Slurm, own: Project, write: Write
) -> None:
    _, _, prolog = write("slurm", project=own)
    os.unlink(own.site("app") / "leaf" / "cli.py")
    slurm.configure(f"Prolog={prolog}")
    try:
        assert slurm.run("srun", "echo", "other").stdout == "other\n"
        asked = slurm.run(
            "sbatch", "--parsable", "--no-requeue", "--comment=envlock:app", "-o", "/dev/null", "--wrap=true"
        )
        slurm.wait("drained", "drained*", "draining")
        slurm.run("scancel", asked.stdout.strip())
    finally:
        slurm.configure()
        slurm.run("scontrol", "update", f"nodename={slurm.run('hostname', '-s').stdout.strip()}", "state=resume")
    slurm.wait("idle")
    own.ok("sync", "--rebuild", "app")
    slurm.configure(f"Prolog={prolog}")
    assert slurm.run("srun", "--comment=envlock:app", "echo", "mended").stdout == "mended\n"
    slurm.configure()
