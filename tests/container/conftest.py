from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock import disk
from envlock.container.hops import Hop, LxcAttach
from envlock.container.transport import Transport, ssh
from tests.support import lxc
from tests.support.sshd import sshd


@pytest.fixture(scope="session", autouse=True)
def one_run_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Containers have names of this machine: two runs of these tests take turns."""
    if any(item.get_closest_marker("lxc") for item in request.session.items):
        with disk.locked(Path(tempfile.gettempdir()) / "envlock-lxc-tests.lock"):
            yield
    else:
        yield


@pytest.fixture(scope="session")
def sshd_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with sshd(tmp_path_factory.mktemp("sshd")) as config:
        yield config


@pytest.fixture
def loopback(sshd_config: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real sshd, reached as the host `loop` through ENVLOCK_SSH_CONFIG."""
    monkeypatch.setenv("ENVLOCK_SSH_CONFIG", str(sshd_config))
    return sshd_config


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose container `envlock-test` runs."""
    folder = lxc.project(tmp_path_factory.mktemp("guest") / "project", "envlock-test")
    with lxc.container(folder, "envlock-test"):
        yield folder


PLACES = [
    pytest.param("here", id="here"),
    pytest.param("ssh", marks=pytest.mark.sshd, id="ssh"),
    pytest.param("lxc", marks=pytest.mark.lxc, id="lxc"),
    pytest.param("ssh-lxc", marks=[pytest.mark.lxc, pytest.mark.sshd], id="ssh-lxc"),
]


@pytest.fixture(params=PLACES)
def transport(request: pytest.FixtureRequest) -> Transport:
    """A way into each kind of place."""
    hops: list[Hop] = []
    if "ssh" in request.param:
        request.getfixturevalue("loopback")
        hops.append(ssh("loop"))
    if "lxc" in request.param:
        request.getfixturevalue("guest")
        hops.append(LxcAttach(name="envlock-test"))
    return Transport(hops)
