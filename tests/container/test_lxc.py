"""Real containers: made, interrupted, made again, examined with made-up devices, removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.container.config import LXC_FOLDER
from envlock.container.doctor import judge
from envlock.container.engine_lxc import Lxc
from envlock.container.examine import examine
from envlock.container.facts import HostFacts
from envlock.container.observe import host_facts
from envlock.container.reader import read_container
from envlock.container.transport import Transport
from envlock.errors import ContainerError
from tests.support import lxc

pytestmark = pytest.mark.lxc

# Made-up GPUs: numbers of devices that every kernel has and a container may not open by itself (1:11 is kmsg).
FAKE = {"nvidia0": (1, 11), "nvidiactl": (1, 5), "nvidia-uvm": (1, 7), "nvidia-caps/nvidia-cap1": (1, 8)}
FAKE_PROC = "Character devices:\n  1 nvidia\n  1 nvidia-uvm\n  1 nvidia-caps\n\nBlock devices:\n"


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    (root / "dev" / "nvidia-caps").mkdir(parents=True)
    (root / "proc" / "driver" / "nvidia").mkdir(parents=True)
    (root / "proc" / "devices").write_text(FAKE_PROC)
    for name, (major, minor) in FAKE.items():
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        (root / "dev" / name).chmod(0o666)
    return root


def facts(engine: Lxc, devices: Path) -> HostFacts:
    return host_facts(engine.host, engine.container, dev=str(devices / "dev"), proc=str(devices / "proc"))


@pytest.fixture
def engine(guest: Path, devices: Path) -> Iterator[Lxc]:
    """A container with GPUs declared; the root file system of `guest` serves as its base."""
    text = f'engine = "lxc"\nprivileged = true\npackages = {lxc.PACKAGES}\n[gpu]\ndriver = "none"\n[limits]\nmemlock = "64 KiB"\n'
    made = Lxc(read_container("envlock-devices", text, "declaration"), Transport(()))
    host = facts(made, devices)
    made.make_rootfs(host)
    made.write_config(host)
    yield made
    if made.guest().state == "running":
        made.stop()
    made.destroy()


def failed(engine: Lxc, host: HostFacts) -> dict[str, tuple[str, str, str]]:
    checks = judge(engine.container, host, examine(engine.inside, engine.container, ()), "2.28")
    return {check.id: (check.where, check.found, check.remedy) for check in checks if check.status == "fail"}


def test_made_up_devices_are_there_and_open_inside(engine: Lxc, devices: Path) -> None:
    engine.start()
    host = facts(engine, devices)
    report = examine(engine.inside, engine.container, ())
    assert {node.name: (node.major, node.minor) for node in report.nodes} == FAKE
    assert set(report.opened.values()) == {""}
    assert set(failed(engine, host)) == {"container.driver"}  # no kernel module of NVIDIA's behind made-up devices


def test_a_right_that_is_missing_in_the_cgroup_is_found_and_laid_at_the_hosts_door(engine: Lxc, devices: Path) -> None:
    config = Path(engine.folder) / "config"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "c 1:11 " not in line))
    engine.start()
    where, found, remedy = failed(engine, facts(engine, devices))["container.device.nvidia0"]
    assert where == "host"
    assert "device cgroup forbids 1:11" in found
    assert "stop and start" in remedy


def test_a_node_that_is_gone_stops_the_start_with_a_word_on_it(engine: Lxc, devices: Path) -> None:
    (devices / "dev" / "nvidia-uvm").unlink()
    with pytest.raises(ContainerError) as caught:
        engine.start()
    assert "nvidia-uvm is missing" in "\n".join(caught.value.details)
    os.mknod(devices / "dev" / "nvidia-uvm", 0o666 | stat.S_IFCHR, os.makedev(1, 9))  # another number after a reboot
    with pytest.raises(ContainerError) as caught:
        engine.start()
    assert "1:9, the configuration says 1:7" in "\n".join(caught.value.details)
    engine.write_config(facts(engine, devices))
    engine.start()
    assert "container.device.nvidia-uvm" not in failed(engine, facts(engine, devices))


def test_creating_again_changes_nothing_and_status_says_so(guest: Path) -> None:
    again = lxc.envlock(guest, "container", "create", "envlock-test")
    assert again.returncode == 0
    assert b"+" not in again.stderr
    status = lxc.envlock(guest, "container", "status", "envlock-test", "--json")
    assert json.loads(status.stdout)["as_declared"] is True
    plan = json.loads(lxc.envlock(guest, "container", "plan", "envlock-test", "--json").stdout)
    assert (plan["steps"], plan["problems"]) == ([], [])


def test_doctor_passes_a_healthy_container(guest: Path) -> None:
    done = lxc.envlock(guest, "container", "doctor", "envlock-test", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert {"container.shm", "container.glibc", "container.clock", "container.disk.store"} <= {
        check["id"] for check in report["checks"]
    }


def test_exec_hands_on_words_streams_and_status(guest: Path) -> None:
    script = 'cat; printf "%s|" "$@"; exit 7'
    words = ("sh", "-c", script, "sh", "a b", "it's", "$HOME", "", "x\ny")
    done = lxc.envlock(guest, "container", "exec", "envlock-test", "--", *words, stdin=b"in\0")
    assert (done.returncode, done.stdout) == (7, b"in\0a b|it's|$HOME||x\ny|")


def test_create_goes_on_wherever_it_was_killed(tmp_path: Path, guest: Path) -> None:
    folder = lxc.project(tmp_path / "project", "envlock-cut")
    try:
        for seconds in (0.5, 1.0, 2.0):
            process = subprocess.Popen(
                lxc.command("container", "create", "envlock-cut"),
                cwd=folder,
                env={**os.environ, "ENVLOCK_PROJECT": str(folder)},
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            time.sleep(seconds)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done = lxc.envlock(folder, "container", "create", "envlock-cut")
        assert done.returncode == 0, done.stderr.decode()
        assert lxc.envlock(folder, "container", "doctor", "envlock-cut").returncode == 0
        leftovers = [name for name in os.listdir(f"{LXC_FOLDER}/envlock-cut") if name.endswith(".part")]
        assert leftovers == []
    finally:
        gone = lxc.envlock(folder, "container", "destroy", "envlock-cut", "--yes")
    assert gone.returncode == 0
    assert not Path(f"{LXC_FOLDER}/envlock-cut").exists()


def test_a_container_that_envlock_did_not_make_is_never_touched(tmp_path: Path) -> None:
    theirs = Path(LXC_FOLDER) / "envlock-theirs"
    (theirs / "rootfs").mkdir(parents=True)
    (theirs / "rootfs" / "precious").write_text("x")
    (theirs / "config").write_text(f"lxc.rootfs.path = dir:{theirs}/rootfs\nlxc.uts.name = envlock-theirs\n")
    folder = lxc.project(tmp_path / "project", "envlock-theirs")
    try:
        before = (theirs / "config").read_text()
        for words in (("create",), ("destroy",)):
            done = lxc.envlock(
                folder, "container", *words, "envlock-theirs", *(["--yes"] if words == ("destroy",) else [])
            )
            assert done.returncode == 1
            assert b"made" in done.stderr
        assert (theirs / "config").read_text() == before
        assert (theirs / "rootfs" / "precious").read_text() == "x"
    finally:
        shutil.rmtree(theirs)


def test_destroy_asks_first(guest: Path) -> None:
    done = lxc.envlock(guest, "container", "destroy", "envlock-test", stdin=b"n\n")
    assert done.returncode != 0
    assert lxc.envlock(guest, "container", "status", "envlock-test").returncode == 0


def test_an_unprivileged_container_works_the_same(tmp_path: Path, guest: Path) -> None:
    folder = lxc.project(tmp_path / "project", "envlock-unpriv")
    file = folder / "container" / "envlock-unpriv.toml"
    file.write_text(file.read_text().replace("privileged = true\n", ""))
    with lxc.container(folder, "envlock-unpriv"):
        done = lxc.envlock(folder, "container", "exec", "envlock-unpriv", "--", "cat", "/proc/self/uid_map")
        assert done.stdout.split() == [b"0", b"100000", b"65536"]
        assert lxc.envlock(folder, "container", "doctor", "envlock-unpriv").returncode == 0
