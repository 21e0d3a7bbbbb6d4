"""`--in NAME` end to end: a real container, a real index on loopback, the same words as here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.errors import UsageError
from envlock.workflows.place import split
from tests.support import lxc
from tests.support.project import Project


@pytest.mark.parametrize(
    ("words", "place", "kept"),
    [
        (["sync", "a", "--in", "x"], "x", ["sync", "a"]),
        (["-C", "/p", "sync", "--in=x", "a", "--json"], "x", ["sync", "a", "--json"]),
        (["run", "a", "--in", "x", "--", "p", "--in", "y", "-C"], "x", ["run", "a", "--", "p", "--in", "y", "-C"]),
        (["run", "a", "--", "--in", "y"], None, ["run", "a", "--", "--in", "y"]),
        (["--project=/p", "status"], None, ["status"]),
    ],
)
def test_the_place_is_taken_out_and_the_rest_stays(words: list[str], place: str | None, kept: list[str]) -> None:
    assert split(words) == (place, kept)


@pytest.mark.parametrize("words", [["sync", "--in"], ["run", "a", "--in", "--", "x"]])
def test_a_place_without_a_name_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        split(words)


MOUNTS = """
[[mount]]
use = "project"
target = "/srv/project"
"""


@pytest.fixture
def placed(request: pytest.FixtureRequest, project: Project) -> Iterator[Project]:
    """A locked project with a container, its files mounted or pushed; the container has the host's network."""
    project.wheel("tiny", "1.0")
    project.simple_profile("small", "tiny==1.0", more='[env]\npass = ["TOKEN_*"]\n')
    (project.root / "container").mkdir()
    kind = getattr(request, "param", "pushed")
    extra = {"mounted": MOUNTS, "alone": 'config = ["lxc.net.0.type = empty"]\n'}.get(kind, "")
    project.env["XDG_CACHE_HOME"] = str(lxc.cache())
    (project.root / "container" / "envlock-place.toml").write_text(
        f'engine = "lxc"\nprivileged = true\npackages = {lxc.PACKAGES}\n{extra}'
    )
    assert project.run("lock", "small").code == 0
    try:
        made = project.run("container", "create", "envlock-place")
        assert made.code == 0, made.err
        yield project
    finally:
        project.run("container", "destroy", "envlock-place", "--yes")


@pytest.mark.lxc
@pytest.mark.parametrize("placed", ["mounted", "pushed"], indirect=True)
def test_the_same_commands_mean_the_same_there(placed: Project) -> None:
    trusted = placed.root.parent / "company.pem"
    trusted.write_text(Path("/etc/ssl/certs/ca-certificates.crt").read_text() + "# the company's own\n")
    placed.env["SSL_CERT_FILE"] = str(trusted)
    synced = placed.run("sync", "small", "--in", "envlock-place", "--json")
    assert synced.code == 0, synced.err
    there = placed.run("container", "exec", "envlock-place", "--", "cat", "/etc/envlock/ca.pem")
    assert there.out == trusted.read_text()
    assert synced.json["profiles"][0]["built"] is True
    assert placed.run("sync", "small", "--in", "envlock-place", "--json").json["profiles"][0]["built"] is False
    code = "import os, sys, json; print(json.dumps([sys.prefix, sys.argv[1:], os.environ.get('TOKEN_A'), os.environ.get('OTHER')]))"
    words = ("a b", "it's", "$HOME", "", "x\ny", "--in", "-C")
    placed.env |= {"TOKEN_A": "s3cret 'x'", "OTHER": "stays"}
    ran = placed.run("run", "small", "--in", "envlock-place", "--", "python", "-c", code, *words)
    assert ran.code == 0, ran.err
    prefix, arguments, token, other = json.loads(ran.out)
    assert prefix.startswith("/var/lib/envlock/store/envs/small/0001-")
    assert (arguments, token, other) == (list(words), "s3cret 'x'", None)
    assert placed.run("run", "small", "--in", "envlock-place", "--", "sh", "-c", "exit 7").code == 7
    status = placed.run("status", "--in", "envlock-place", "--json").json["profiles"]
    assert [(one["name"], one["synced"]) for one in status] == [("small", "current")]


@pytest.mark.lxc
def test_a_changed_lock_is_seen_there_at_once_and_the_refusal_says_what_to_type_here(placed: Project) -> None:
    assert placed.run("sync", "small", "--in", "envlock-place").code == 0
    placed.wheel("tiny", "1.1")
    placed.simple_profile("small", "tiny==1.1")
    assert placed.run("lock", "small").code == 0
    refused = placed.run("run", "small", "--in", "envlock-place", "--", "true")
    assert refused.code == 125
    assert "envlock sync small --in envlock-place" in refused.err


@pytest.mark.lxc
def test_a_profile_that_names_its_container_runs_there_and_inside_it_is_local(placed: Project) -> None:
    text = placed.layout.profile("small").read_text()
    placed.layout.profile("small").write_text(f'container = "envlock-place"\n{text}')
    assert placed.run("sync", "small").code == 0
    ran = placed.run("run", "small", "--", "python", "-c", "import sys; print(sys.prefix)")
    assert ran.out.startswith("/var/lib/envlock/store/")
    inside = subprocess.run(
        [
            "lxc-attach",
            "-n",
            "envlock-place",
            "--clear-env",
            "--",
            "/usr/local/bin/envlock",
            "run",
            "small",
            "--",
            "true",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert inside.returncode == 0, inside.stderr
    assert not (Path(placed.root) / ".envlock" / "envs" / "small").exists()


@pytest.mark.lxc
@pytest.mark.sshd
def test_through_ssh_all_of_it_is_the_same(placed: Project, sshd_config: Path) -> None:
    file = placed.root / "container" / "envlock-place.toml"
    file.write_text(f'host = "loop"\n{file.read_text()}')
    placed.env["ENVLOCK_SSH_CONFIG"] = str(sshd_config)
    assert placed.run("container", "create", "envlock-place").err.count("+") == 0  # the same container, seen from afar
    doctor = placed.run("container", "doctor", "envlock-place", "--json")
    assert doctor.code == 0, doctor.out
    assert placed.run("sync", "small", "--in", "envlock-place").code == 0
    placed.env["TOKEN_A"] = "a'b\n"
    code = "import os, sys; sys.stdout.write(repr([sys.argv[1:], os.environ['TOKEN_A']])); sys.exit(7)"
    ran = placed.run("run", "small", "--in", "envlock-place", "--", "python", "-c", code, "it's", "$HOME", "", "x\ny")
    assert (ran.code, ran.out) == (7, repr([["it's", "$HOME", "", "x\ny"], "a'b\n"]))
    process = placed.start("run", "small", "--in", "envlock-place", "--", "sh", "-c", "echo up; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 128 + 15


@pytest.mark.lxc
@pytest.mark.parametrize("placed", ["alone"], indirect=True)
def test_a_container_without_a_network_is_filled_from_here(placed: Project) -> None:
    assert placed.run("sync", "small").code == 0  # fills the cache of this machine
    assert placed.run("sync", "small", "--offline", "--in", "envlock-place").code != 0
    filled = placed.run("container", "fill", "envlock-place")
    assert filled.code == 0, filled.err
    assert "has every wheel already" in placed.run("container", "fill", "envlock-place").err
    synced = placed.run("sync", "small", "--offline", "--in", "envlock-place")
    assert synced.code == 0, synced.err
    assert placed.run("run", "small", "--in", "envlock-place", "--", "python", "-c", "import tiny").code == 0


@pytest.mark.lxc
@pytest.mark.parametrize("placed", ["mounted", "pushed"], indirect=True)
def test_an_environment_made_by_hand_in_there_is_adopted_where_it_is(placed: Project) -> None:
    wheel = placed.wheels / "tiny-1.0-py3-none-any.whl"
    url = f"{placed.index.url.removesuffix('/simple')}/files/{wheel.name}"
    made = (
        "import io, subprocess, sys, urllib.request, zipfile\n"
        "subprocess.run([sys.executable, '-m', 'venv', '--without-pip', '/root/old'], check=True)\n"
        "site = f'/root/old/lib/python3.{sys.version_info[1]}/site-packages'\n"
        f"zipfile.ZipFile(io.BytesIO(urllib.request.urlopen({url!r}).read())).extractall(site)\n"
    )
    assert placed.run("container", "exec", "envlock-place", "--", "python3", "-c", made).code == 0
    adopted = placed.run("adopt", "/root/old", "--as", "adopted", "--in", "envlock-place", "--json")
    assert adopted.code == 0, adopted.err
    assert (adopted.json["direct"], adopted.json["damage"], adopted.json["differences"]) == (["tiny==1.0"], [], [])
    assert "tiny==1.0" in placed.layout.profile("adopted").read_text()
    assert placed.run("lock", "--check", "adopted").code == 0
    ran = placed.run(
        "run", "adopted", "--in", "envlock-place", "--", "python", "-c", "import tiny, sys; print(sys.prefix)"
    )
    assert ran.out.startswith("/var/lib/envlock/store/envs/adopted/0001-")
    nothing = placed.run("adopt", "/root/nothing", "--as", "other", "--in", "envlock-place")
    assert nothing.code == 1
    assert "no environment at /root/nothing" in nothing.err
    assert not placed.layout.profile("other").exists()
