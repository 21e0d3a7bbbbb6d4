from __future__ import annotations

from pathlib import Path

import pytest

from envlock.container.files import container_names, load_container
from envlock.container.reader import read_container
from envlock.errors import ContainerFileError, UsageError
from envlock.layout import Layout

ROOT = Path(__file__).parents[2]


def faults(text: str, name: str = "x") -> dict[str, tuple[int | None, str, str | None]]:
    with pytest.raises(ContainerFileError) as caught:
        read_container(name, text, f"container/{name}.toml")
    return {fault.key: (fault.line, fault.message, fault.suggestion) for fault in caught.value.faults}


def test_shipped_declarations_are_read() -> None:
    layout = Layout(ROOT)
    assert container_names(layout) == ("ct200", "local-lxc")
    proxmox, plain = (load_container(layout, name) for name in container_names(layout))
    assert (proxmox.guest, proxmox.host, proxmox.privileged) == ("200", "root@pve", False)
    assert proxmox.gpus is not None and proxmox.gpus.devices == "all"
    assert proxmox.limits.shm == 64 << 30
    assert (plain.guest, plain.host, plain.network) == ("local-lxc", None, "none")
    assert plain.paths.project == "/srv/project"
    assert plain.paths.store == "/var/lib/envlock/store"


def test_every_fault_comes_at_once_with_line_and_nearest_spelling() -> None:
    found = faults(
        'engne = "lxc"\npackages = ["python3", "-rm"]\n\n[[mount]]\nsource = "/a"\ntarget = "b"\n'
        '[[mount]]\nsorce = "/x"\ntarget = "/y"\n\n[gpu]\ndriver = "bnd"\nmode = "rw"\n[limits]\nmemory = "much"\n'
    )
    assert found["engne"] == (1, "unknown key", "engine")
    assert found["engine"][1].startswith("is missing")
    assert found["packages"][0] == 2
    assert found["mount[0].target"][0] == 6
    assert found["mount[1].sorce"] == (8, "unknown key", "source")
    assert found["mount[1].source"][1].startswith("is missing")
    assert found["gpu.driver"][2] == "bind"
    assert found["gpu.mode"][0] == 13
    assert found["limits.memory"][0] == 15


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('engine = "proxmox"\ntemplate = "local:vztmpl/x"\n', "id"),
        ('engine = "proxmox"\nid = 200\n', "template"),
        ('engine = "lxc"\nid = 200\n', "id"),
        ('engine = "lxc"\nstorage = "zfs"\n', "storage"),
        ('engine = "lxc"\nhost = "-oProxyCommand=x"\n', "host"),
        ('engine = "lxc"\nprivileged = true\n[gpu]\ndriver = "hook"\n', "gpu.driver"),
        ('engine = "lxc"\n[gpu]\ndevices = []\n', "gpu.devices"),
        ('engine = "lxc"\n[gpu]\ndevices = ["zero"]\n', "gpu.devices"),
        ('engine = "lxc"\n[gpu]\ncapabilities = ["utility"]\n', "gpu.capabilities"),
        ('engine = "lxc"\n[[mount]]\nuse = "store"\ntarget = "/s"\n', "mount[0].source"),
        (
            'engine = "lxc"\n[[mount]]\nuse = "store"\nsource="/s"\ntarget = "/s"\nread-only = true\n',
            "mount[0].read-only",
        ),
        ('engine = "lxc"\n[[mount]]\nsource = "/a/../b"\ntarget = "/s"\n', "mount[0].source"),
        ('engine = "lxc"\n[[mount]]\nsource="/a"\ntarget="/s"\n[[mount]]\nsource="/b"\ntarget="/s"\n', "mount"),
        ('engine = "lxc"\nrelease = "book worm"\n', "release"),
        ('engine = "lxc"\nprivileged = "yes"\n', "privileged"),
        ('engine = "lxc"\n[env]\n"A B" = "x"\n', "env.A B"),
        ("engine = lxc\n", ""),
    ],
)
def test_impossible_declarations_are_refused(text: str, key: str) -> None:
    assert key in faults(text)


def test_paths_follow_the_mounts_unless_they_are_given() -> None:
    mount = '[[mount]]\nuse = "store"\nsource = "/disk"\ntarget = "/disk"\n'
    assert read_container("x", f'engine = "lxc"\n{mount}', "f").paths.store == "/disk"
    given = read_container("x", f'engine = "lxc"\n{mount}[paths]\nstore = "/disk/envs"\n', "f")
    assert given.paths.store == "/disk/envs"


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "container").mkdir()
    (tmp_path / "container" / "gpu1.toml").write_text('engine = "lxc"\n')
    with pytest.raises(UsageError, match="gpu2") as caught:
        load_container(Layout(tmp_path), "gpu2")
    assert caught.value.hint == "did you mean 'gpu1'?"
    with pytest.raises(UsageError):
        load_container(Layout(tmp_path), "../container/gpu1")
