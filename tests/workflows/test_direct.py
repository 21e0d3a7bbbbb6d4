"""Packages that come from no index: URLs, git revisions and local files, from the profile to the running program."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from envlock.lock.files import load_lock
from envlock.resolve import uv
from tests.support.project import Project
from tests.support.sources import make_repository, make_sdist
from tests.support.wheels import make_wheel

KINDS = ["url wheel", "url sdist", "path wheel", "path sdist", "git"]


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def requirement(project: Project, kind: str) -> str:
    """Put a package `own` 1.0, which requires leaf, where `kind` says, and return the line that asks for it."""
    files = project.root / "third party"
    if kind == "url wheel":
        served = project.wheel("own", "1.0", requires=["leaf>=1"])
        return f"own @ {project.index.url.removesuffix('/simple')}/files/{served.name}#sha256={sha(served)}"
    if kind == "url sdist":
        served = make_sdist(project.index.folder, "own", "1.0", requires=("leaf>=1",))
        return f"own @ {project.index.url.removesuffix('/simple')}/files/{served.name}#sha256={sha(served)}"
    if kind == "path wheel":
        there = make_wheel(files, "own", "1.0", requires=["leaf>=1"])
        return f"own @ file:./third%20party/{there.name}#sha256={sha(there)}"
    if kind == "path sdist":
        there = make_sdist(files, "own", "1.0", requires=("leaf>=1",))
        return f"own @ file:./third%20party/{there.name}#sha256={sha(there)}"
    commit = make_repository(project.root.parent / "repository", "own", "1.0", requires=("leaf>=1",))
    return f"own @ git+file://{project.root.parent}/repository@{commit}"


@pytest.fixture(params=KINDS)
def direct(project: Project, request: pytest.FixtureRequest) -> tuple[Project, str]:
    project.wheel("leaf", "1.0")
    line = requirement(project, request.param)
    project.simple_profile("app", line)
    return project, line


def test_it_is_locked_installed_and_run(direct: tuple[Project, str]) -> None:
    project, line = direct
    project.ok("lock")
    lock, _ = load_lock(project.layout, "app")
    own = lock.by_name["own"]
    assert own.direct is not None
    known = "leaf" if own.direct.kind == "git" else "leaf>=1"  # of a revision uv tells the names alone
    assert (own.version, own.index, own.requires) == ("1.0", "", (known,))
    asked = line.partition(" @ ")[2].partition("#")[0]
    if own.direct.kind == "git":
        assert f"git+{own.direct.location}@{own.direct.revision}" == asked
        assert own.artifacts == ()
    else:
        assert own.direct.location == asked
        assert [item.sha256 for item in own.artifacts] == [line.rpartition("sha256=")[2]]
    text = project.layout.lock("app").read_text()
    if own.direct.kind == "path":
        assert str(project.root) not in text
    project.ok("lock", "--upgrade")
    assert project.layout.lock("app").read_text() == text
    project.ok("lock", "--check")
    project.ok("sync")
    told = project.ok("run", "app", "--", "python", "-c", "import own, leaf; print(own.__version__, leaf.__version__)")
    assert told.out.split() == ["1.0", "1.0"]
    project.ok("verify", "app", "--tier", "static")
    project.ok("sync", "--rebuild", "--offline")
    assert "requirements: own @ " in project.ok("why", "app", "leaf").out
    assert "own @ " in project.ok("export", "app", "--format", "requirements").out
    exported = project.root / "pylock.toml"
    project.ok("export", "app", "--format", "pylock", "-o", str(exported))
    misnamed = project.ok("export", "app", "--format", "pylock", "-o", str(project.root / "p.toml"))
    assert "pylock.NAME.toml" in misnamed.err
    target = project.root / "by-uv"
    subprocess.run([uv.binary(), "venv", "-q", "--python", sys.executable, target], check=True)
    argv = ["pip", "sync", "-q", "--python", str(target), "--preview", str(exported)]
    subprocess.run([str(uv.binary()), *argv], check=True, cwd=project.root, env=uv.environment(project.env))
    assert list(target.glob("lib/python3*/site-packages/own/__init__.py"))


def test_it_moves_with_the_project(direct: tuple[Project, str]) -> None:
    project, _ = direct
    project.ok("lock")
    elsewhere = project.root.with_name("elsewhere")
    project.root.rename(elsewhere)
    moved = Project(elsewhere, project.index, project.env)
    moved.env["ENVLOCK_UV_CACHE_DIR"] = str(elsewhere.parent / "another-cache")
    moved.ok("lock", "--check")
    moved.ok("sync")
    moved.ok("run", "app", "--", "python", "-c", "import own")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "git"])
def test_other_bytes_than_the_profile_pins_are_refused(project: Project, kind: str) -> None:
    project.wheel("leaf", "1.0")
    line = requirement(project, kind)
    project.simple_profile("app", line[:-64] + "0" * 64)
    refused = project.run("lock")
    if kind == "url wheel":  # only its end was read: the lock repeats the pin, and whoever fetches it holds it to that
        assert refused.code == 0
        refused = project.run("sync")
    else:
        assert not project.layout.lock("app").exists()
    assert refused.code != 0
    assert "own" in refused.err
    assert "0" * 64 in refused.err


@pytest.mark.parametrize("kind", ["path wheel", "url wheel", "git"])
def test_what_is_gone_is_told_by_name(project: Project, kind: str) -> None:
    project.wheel("leaf", "1.0")
    line = requirement(project, kind)
    project.simple_profile("app", line)
    if kind == "git":
        subprocess.run(["rm", "-rf", str(project.root.parent / "repository")], check=True)
    else:
        for folder in (project.root / "third party", project.index.folder):
            for path in folder.glob("own-*"):
                path.unlink()
    refused = project.run("lock")
    assert refused.code == 1
    assert "error" in refused.err
    assert not project.layout.lock("app").exists()
    assert "Traceback" not in refused.err
    assert "own" in refused.err


def test_a_build_gets_its_own_requirements_and_variables_and_no_other_does(project: Project) -> None:
    project.wheel("helper", "1.0")
    project.wheel("helper", "2.0")
    for name in ("own", "other"):
        make_sdist(project.index.folder, name, "1.0")
    more = '[build.own]\nrequires = ["helper==1.0"]\nenv = { BUILD_FLAG = "tuned" }\n'
    project.simple_profile("app", "own", "other", more=more)
    project.ok("lock")
    project.ok("sync", env={"BUILD_FLAG": "of the caller"})
    told = project.ok("run", "app", "--", "python", "-c", "import own, other; print(own.BUILT, other.BUILT)").out
    assert told.strip() == "['tuned', '1.0'] [None, None]"
    assert not list(project.site("app").glob("helper*"))
    project.simple_profile("app", "own", "other", more=more.replace("tuned", "otherwise"))
    assert project.run("lock", "--check").code == 1
    project.ok("lock")
    project.ok("sync")
    told = project.ok("run", "app", "--", "python", "-c", "import own, other; print(own.BUILT, other.BUILT)").out
    assert told.strip() == "['otherwise', '1.0'] [None, None]"
    project.simple_profile("app", "own", more='[build.own]\nrequires = ["helper==9"]\n')
    project.run("lock")  # the metadata is in a file of the source: nothing is built yet
    refused = project.run("sync", "--rebuild")
    assert refused.code == 1
    assert "helper" in refused.err
