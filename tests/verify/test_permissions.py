"""A chmod changes neither size nor time: what it takes away, or gives to anybody, is told all the same."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envlock.errors import StoreError
from tests.support import environments as made
from tests.support.environments import judged
from tests.support.project import Project

SITE = f"lib/python{made.MINOR}/site-packages"


@pytest.fixture
def prefix() -> Iterator[Path]:
    """A stack in a folder that every user may look into."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        prefix = Path(folder) / "0001-dddddddd"
        made.make_stack(prefix)
        yield prefix


def own_python(prefix: Path) -> Path:
    path = prefix / "bin" / "python"
    path.unlink()
    shutil.copy(os.path.realpath(sys.executable), path)
    return path


def unstartable(prefix: Path) -> None:
    own_python(prefix).chmod(0o644)


def other_rights(prefix: Path) -> None:
    own_python(prefix).chmod(0o4755)


def unreadable_library(prefix: Path) -> None:
    (prefix / SITE / "kern" / "common.abi3.so").chmod(0)


def closed_package(prefix: Path) -> None:
    (prefix / SITE / "kern").chmod(0o600)


VITAL: dict[str, tuple[Callable[[Path], None], str]] = {
    "an interpreter that cannot be started": (unstartable, "bin/python cannot be executed"),
    "an interpreter with other rights": (other_rights, "bin/python runs with the rights of its user (set-user-ID)"),
    "a library that cannot be read": (unreadable_library, "site-packages/kern/common.abi3.so cannot be read"),
    "a package that cannot be entered": (closed_package, "site-packages/kern cannot be read"),
}


@pytest.mark.parametrize("name", VITAL)
@pytest.mark.parametrize("sealed", [True, False])
def test_what_matters_most_is_told_always(name: str, prefix: Path, sealed: bool) -> None:
    damage, words = VITAL[name]
    own_python(prefix)
    lock = made.make_lock(prefix)
    seal = made.make_seal(prefix, lock) if sealed else None
    assert judged(prefix, lock, seal)["files.permissions"].status == "pass"
    damage(prefix)
    found = judged(prefix, lock, seal)["files.permissions"]
    assert found.status == "fail"
    assert words in found.found
    assert found.remedy


def test_what_anybody_may_change_is_a_warning(prefix: Path) -> None:
    (prefix / SITE).chmod(0o777)
    (prefix / SITE / "kern" / "common.abi3.so").chmod(0o666)
    found = judged(prefix, None, None)["files.permissions"]
    assert found.status == "warn"
    assert f"{SITE} can be changed by anybody, {SITE}/kern/common.abi3.so can be changed by anybody" in found.found


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        (0o200, "fail", "cannot be read"),
        (0o2644, "fail", "runs with the rights of its group (set-group-ID)"),
        (0o646, "warn", "can be changed by anybody"),
    ],
)
def test_every_other_file_is_told_with_deep(prefix: Path, mode: int, status: str, words: str) -> None:
    lock = made.make_lock(prefix)
    seal = made.make_seal(prefix, lock)
    (prefix / SITE / "torch" / "version.py").chmod(mode)
    assert judged(prefix, lock, None)["files.permissions"].status == "pass"
    assert judged(prefix, lock, seal)["files.permissions"].status == ("pass" if status == "warn" else status)
    for found in (judged(prefix, lock, seal, deep=True), judged(prefix, lock, None, deep=True)):
        assert found["files.permissions"].status == status
        assert f"{SITE}/torch/version.py {words}" == found["files.permissions"].found


def test_folders_that_hand_on_their_group_are_no_fault(prefix: Path) -> None:
    """So is every folder that is made in a shared one with `chmod g+s`."""
    (prefix / SITE / "torch").chmod(0o2755)
    assert judged(prefix, None, None, deep=True)["files.permissions"].status == "pass"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("deep", [True, False])
def test_another_user_is_told_what_he_cannot_read(prefix: Path, deep: bool) -> None:
    (prefix / SITE / "torch" / "lib").chmod(0o700)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            judged(prefix, None, None, deep=deep)
            os.write(write, b"no error")
        except StoreError as error:
            os.write(write, f"{error} {error.where}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        said = told.read()
    os.waitpid(child, 0)
    assert "cannot be judged" in said
    assert said.endswith("torch/lib")


def test_the_command_line_says_so(project: Project) -> None:
    project.wheel("leaf", "1.0", scripts={"tool": "leaf:main"}, files={"leaf/data.txt": "x"})
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    words = ("verify", "app", "--tier", "static")
    project.ok(*words)
    project.ok(*words, "--deep")
    (project.site("app") / "leaf" / "data.txt").chmod(0o646)
    assert "! files.permissions" not in project.ok(*words).out
    told = f"! files.permissions: {SITE}/leaf/data.txt can be changed by anybody"
    assert told in project.ok(*words, "--deep").out
    (project.prefix("app") / "bin" / "tool").chmod(0o644)
    assert "! files.permissions: bin/tool cannot be executed" in project.ok(*words).out
    (project.site("app") / "leaf").chmod(0o400)
    assert project.run(*words).code == 1


@pytest.mark.parametrize("mode", [0o4644, 0o200])
def test_of_a_sealed_file_it_is_drift_and_a_rebuild_mends_it(project: Project, mode: int) -> None:
    """The file is uv's own by a hard link, so the next environment would have it, too."""
    project.wheel("leaf", "1.0", files={"leaf/data.txt": "x"})
    project.simple_profile("app", "leaf", more='links = "hardlink"\n')
    project.ok("lock")
    project.ok("sync")
    words = ("verify", "app", "--tier", "static")
    project.ok(*words)
    project.ok(*words)  # remembered
    (project.site("app") / "leaf" / "data.txt").chmod(mode)
    said = project.run(*words)
    assert said.code == 1
    assert "x files.drift: changed" in said.out
    assert "leaf/data.txt" in said.out
    assert project.run("run", "app", "--", "true").code == 125
    project.ok("sync", "--rebuild", "app")
    project.ok(*words, "--deep")
    project.ok("run", "app", "--", "true")
