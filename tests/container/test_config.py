from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envlock.container.config import device_check, lxc_config, pct_config, pct_create
from envlock.container.declaration import Container
from envlock.container.devices import Node
from envlock.container.facts import GuestFacts, HostFacts
from envlock.container.plan import config_change, plan
from envlock.container.reader import read_container
from tests.container.test_devices import NUMBERS, table

HOST = HostFacts(
    majors=NUMBERS,
    nodes=table(),
    driver="580.65.06",
    libraries=("/usr/lib64/libcuda.so.580.65.06", "/usr/bin/nvidia-smi"),
)


def declared(text: str, name: str = "box") -> Container:
    return read_container(name, text, f"container/{name}.toml")


def test_plain_lxc_gets_rights_and_mounts_and_nothing_is_optional() -> None:
    lines = lxc_config(declared('engine = "lxc"\n[gpu]\n'), HOST)
    assert "lxc.cgroup2.devices.allow = c 511:0 rw" in lines
    assert "lxc.mount.entry = /dev/nvidia-uvm dev/nvidia-uvm none bind,create=file 0 0" in lines
    assert (
        "lxc.mount.entry = /dev/nvidia-caps/nvidia-cap2 dev/nvidia-caps/nvidia-cap2 none bind,create=file 0 0" in lines
    )
    libcuda = "usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"
    assert f"lxc.mount.entry = /usr/lib64/libcuda.so.580.65.06 {libcuda} none bind,ro,create=file 0 0" in lines
    assert "lxc.mount.entry = /usr/bin/nvidia-smi usr/bin/nvidia-smi none bind,ro,create=file 0 0" in lines
    assert "lxc.prlimit.memlock = unlimited" in lines
    assert not any("optional" in line for line in lines)


def test_cgroup_v1_has_its_own_words() -> None:
    text = 'engine = "lxc"\n[gpu]\n[limits]\ncores = 4\nmemory = "8 GiB"\n'
    lines = lxc_config(declared(text), HostFacts(cgroup=1, majors=NUMBERS, nodes=table()))
    assert "lxc.cgroup.devices.allow = c 195:255 rw" in lines
    assert "lxc.cgroup.cpu.cfs_quota_us = 400000" in lines
    assert "lxc.cgroup.memory.limit_in_bytes = 8589934592" in lines
    assert not any("cgroup2" in line for line in lines)


def test_the_hook_is_asked_for_compute_and_utility() -> None:
    lines = lxc_config(declared('engine = "lxc"\n[gpu]\ndriver = "hook"\ndevices = ["1"]\n'), HOST)
    assert "lxc.environment = NVIDIA_DRIVER_CAPABILITIES=compute,utility" in lines
    assert "lxc.environment = NVIDIA_VISIBLE_DEVICES=1" in lines
    assert "lxc.hook.mount = /usr/share/lxc/hooks/nvidia" in lines
    assert not any(line.startswith("lxc.mount.entry = /dev/nvidia") for line in lines)


def test_proxmox_gets_device_entries_with_mode_and_group_and_raw_lines_for_the_rest() -> None:
    text = (
        'engine = "proxmox"\nid = 200\ntemplate = "local:vztmpl/t.tar.zst"\nstorage = "zfs"\n'
        'network = "name=eth0,bridge=vmbr0"\n[gpu]\ndevices = ["0"]\ngid = 44\nmode = "0660"\n'
        '[limits]\nshm = "1 GiB"\n[[mount]]\nsource = "/srv/m"\ntarget = "/m"\nread-only = true\n'
    )
    container = declared(text, "ct200")
    lines = pct_config(container, HOST)
    assert "dev0: /dev/nvidia0,gid=44,mode=0660" in lines
    assert "dev2: /dev/nvidia-uvm,gid=44,mode=0660" in lines
    assert "mp0: /srv/m,mp=/m,ro=1" in lines
    assert "lxc.mount.entry: tmpfs dev/shm tmpfs rw,nosuid,nodev,create=dir,size=1073741824 0 0" in lines
    assert not any(line.startswith("lxc.cgroup") for line in lines)  # pve writes those for devN, with today's majors
    argv = pct_create(container, HOST)
    assert argv[:4] == ("pct", "create", "200", "local:vztmpl/t.tar.zst")
    assert argv[argv.index("--rootfs") + 1] == "zfs:8"
    assert argv[argv.index("--unprivileged") + 1] == "1"


def test_what_proxmox_adds_of_its_own_is_no_difference() -> None:
    found = ("net0: name=eth0,bridge=vmbr0,hwaddr=BC:24:11:00:00:01,type=veth", "arch: amd64", "dev9: /dev/nvidia9")
    change = config_change(("net0: name=eth0,bridge=vmbr0", "cores: 4"), found)
    assert change == ("- dev9: /dev/nvidia9", "+ cores: 4")


def test_the_plan_follows_from_the_facts_alone() -> None:
    container = declared('engine = "lxc"\nprivileged = true\n')
    ids = [step.id for step in plan(container, HOST, GuestFacts(), "d").steps]
    assert ids == ["base", "rootfs", "config", "start", "envlock", "place"]
    made = GuestFacts(state="stopped", ours=True, rootfs=True, config=lxc_config(container, HOST))
    assert [step.id for step in plan(container, HOST, made, "d").steps] == ["start", "envlock", "place"]


def test_somebody_elses_container_forbids_everything() -> None:
    problems = plan(declared('engine = "lxc"\n'), HOST, GuestFacts(state="running"), "d").problems
    assert "envlock did not make it" in problems[0]


def test_problems_of_the_host_forbid_the_making() -> None:
    host = HostFacts(missing_programs=("debootstrap",), absent_sources=("/srv/m",))
    problems = plan(declared('engine = "lxc"\n[gpu]\n'), host, GuestFacts(), "d").problems
    assert "debootstrap is not on the host" in problems
    assert "/srv/m is not on the host, and a mount needs it" in problems
    assert any("kernel module nvidia is not loaded" in problem for problem in problems)
    assert any("no libcuda.so" in problem for problem in problems)


@pytest.mark.parametrize(("minor", "code"), [(3, 0), (5, 1)])
def test_device_numbers_that_moved_stop_a_start(tmp_path: Path, minor: int, code: int) -> None:
    script = tmp_path / "check-devices"
    script.write_text(device_check([Node(path="/dev/null", major=1, minor=minor)]))
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("/dev/null is 1:3, the configuration says 1:5" in done.stderr) is bool(code)
