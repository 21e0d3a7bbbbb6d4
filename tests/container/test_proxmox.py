"""The Proxmox engine against a stand-in for pct that drives a real LXC container. Nothing here ran on a Proxmox host."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envlock.container.doctor import judge
from envlock.container.engine_proxmox import Proxmox
from envlock.container.examine import examine
from envlock.container.facts import HostFacts
from envlock.container.hops import BASE_ENVIRONMENT
from envlock.container.observe import host_facts
from envlock.container.plan import plan
from envlock.container.reader import read_container
from envlock.container.transport import Transport
from envlock.errors import ContainerError, TransportError
from envlock.workflows import container as work
from tests.container.test_lxc import FAKE, FAKE_PROC
from tests.support import lxc, pct_stand_in

pytestmark = pytest.mark.lxc

TEXT = """engine = "proxmox"
id = 4200
template = "local:vztmpl/base.tar"
storage = "local-lvm"
privileged = true
packages = ["python3"]
[gpu]
driver = "none"
mode = "0660"
gid = 44
[limits]
memlock = "64 KiB"
"""

EMPTY = TEXT.replace("base.tar", "empty.tar")
"""For what never starts: a root file system that is unpacked in no time."""


@pytest.fixture
def state(tmp_path: Path, guest: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host with the stand-in on its PATH, a template, and made-up GPUs."""
    root = tmp_path / "pve-host"
    root.mkdir()
    programs = pct_stand_in.install(root)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    cache = lxc.cache() / "envlock" / "rootfs"
    (root / "templates" / "base.tar").symlink_to(next(cache.glob("debian-bookworm-*.tar")))
    (root / "empty" / "sbin").mkdir(parents=True)
    subprocess.run(["tar", "-c", "-C", root / "empty", "-f", root / "templates" / "empty.tar", "."], check=True)
    (root / "dev" / "nvidia-caps").mkdir(parents=True)
    (root / "proc" / "driver" / "nvidia").mkdir(parents=True)
    (root / "proc" / "devices").write_text(FAKE_PROC)
    for name, (major, minor) in FAKE.items():
        os.mknod(root / "dev" / name, 0o600 | stat.S_IFCHR, os.makedev(major, minor))
    yield root
    for verb in ("shutdown", "destroy"):
        subprocess.run(["pct", verb, "4200"], capture_output=True, check=False)


def engine(state: Path, text: str = TEXT) -> Proxmox:
    host = Transport((), env={"PATH": f"{state}/bin:{BASE_ENVIRONMENT['PATH']}"})
    return Proxmox(read_container("ct4200", text, "declaration"), host, pve=f"{state}/pve")


def facts(made: Proxmox, state: Path) -> HostFacts:
    return host_facts(made.host, made.container, dev=f"{state}/dev", proc=f"{state}/proc")


def test_a_container_is_made_configured_started_and_entered(state: Path) -> None:
    made = engine(state)
    host = facts(made, state)
    assert host.missing_programs == ()
    assert made.guest().state == "absent"
    made.make_rootfs(host)
    made.write_config(host)
    conf = (state / "pve" / "lxc" / "4200.conf").read_text()
    assert f"dev0: {state}/dev/nvidia0,gid=44,mode=0660\n" in conf
    assert "lxc.prlimit.memlock: 65536\n" in conf
    assert "lxc.net.0.type: none\n" in conf
    made.start()
    seen = made.guest()
    assert (seen.state, seen.ours) == ("running", True)
    assert plan(made.container, host, seen, "d").steps[0].id not in ("rootfs", "config", "start")
    report = examine(made.inside, made.container, ())
    assert {node.name: (node.major, node.minor) for node in report.nodes} == FAKE
    assert {node.mode for node in report.nodes} == {0o660}
    failed = [check.id for check in judge(made.container, host, report, None) if check.status == "fail"]
    assert failed == ["container.driver"]
    assert made.inside.run(("sh", "-c", 'printf %s "$1"; exit 7', "sh", "it's $HOME\n")).stdout == "it's $HOME\n"
    work.destroy(made)
    assert made.guest().state == "absent"


def test_a_change_of_the_declaration_becomes_set_and_delete_and_raw_lines(state: Path) -> None:
    made = engine(state, EMPTY)
    host = facts(made, state)
    made.make_rootfs(host)
    made.write_config(host)
    file = state / "pve" / "lxc" / "4200.conf"
    file.write_text(file.read_text() + "\n[before-upgrade]\ncores: 1\nlxc.prlimit.memlock: 1\n")
    changed = engine(state, EMPTY.replace('"64 KiB"', '"128 KiB"\ncores = 2').replace('mode = "0660"\ngid = 44', ""))
    fewer = replace(host, nodes=tuple(node for node in host.nodes if not node.name.startswith("nvidia-caps")))
    changed.write_config(fewer)
    conf = (state / "pve" / "lxc" / "4200.conf").read_text()
    now, _, snapshot = conf.partition("[before-upgrade]")
    assert "cores: 2\n" in now
    assert "lxc.prlimit.memlock: 131072\n" in now
    assert f"dev0: {state}/dev/nvidia0,mode=0666\n" in now
    assert "dev3:" not in now
    assert snapshot == "\ncores: 1\nlxc.prlimit.memlock: 1\n"
    before = conf
    changed.write_config(fewer)
    assert (state / "pve" / "lxc" / "4200.conf").read_text() == before


def test_what_pct_refuses_is_told_in_its_words(state: Path) -> None:
    absent = engine(state, EMPTY.replace("empty.tar", "nothing.tar"))
    with pytest.raises(ContainerError, match="pct create failed") as caught:
        absent.make_rootfs(facts(absent, state))
    assert "volume 'local:vztmpl/nothing.tar' does not exist" in "\n".join(caught.value.details)
    made = engine(state, EMPTY)
    host = facts(made, state)
    made.make_rootfs(host)
    made.write_config(host)
    with pytest.raises(TransportError, match="hop 1 of 1, pct exec 4200: failed") as stopped:
        made.inside.run(("true",))
    (state / "dev" / "nvidia-uvm").unlink()
    with pytest.raises(ContainerError) as caught:
        made.start()
    assert "nvidia-uvm does not exist" in "\n".join(caught.value.details)
    assert "not running" in "\n".join(stopped.value.details)


def test_a_container_with_another_name_or_no_tag_is_not_ours(state: Path) -> None:
    argv = ["pct", "create", "4200", "local:vztmpl/empty.tar", "--hostname", "precious"]
    subprocess.run(argv, check=True, env=os.environ)
    made = engine(state, EMPTY)
    assert made.guest().ours is False
    with pytest.raises(ContainerError, match="was not made by envlock"):
        work.destroy(made)
    assert (state / "rootfs" / "4200").is_dir()
