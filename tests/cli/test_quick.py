"""The plainest forms of `why`, `diff` and `verify` are answered apart, and must say what the full commands say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.project import Project


def test_the_quick_and_the_full_command_say_the_same(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.wheel("tree", "1.0", requires=["leaf>=1"])
    project.simple_profile("app", "tree")
    project.simple_profile("other", "leaf")
    project.ok("lock")
    assert project.ok("why", "app", "leaf").out == project.ok("why", "app", "leaf", "--most", "12").out
    assert project.ok("why", "app", "Leaf").out == project.ok("why", "app", "leaf").out
    for form in ("text", "markdown", "json", "html"):
        quick = project.ok("diff", "app", "other", "--format", form)
        assert quick.out == project.ok("diff", "--format", form, "app", "other").out
    written = project.root / "page.html"
    assert "wrote" in project.ok("diff", "app", "other", "-o", str(written), "--format", "html").err
    assert written.read_text() == project.ok("diff", "app", "other", "--format", "html").out.removesuffix("\n")
    lock = project.layout.lock("app")
    lock.write_text(lock.read_text().replace("leaf>=1", "leaf>=2"))
    for words in (("why", "app", "leaf"), ("diff", "app", "other")):
        refused = project.run(*words)
        assert refused.code == 2
        assert "edited by hand" in refused.err


@pytest.fixture
def verified(project: Project) -> Project:
    project.wheel("leaf", "1.0")
    project.profile("base", 'python = "3.11"\n')
    project.profile("app", 'extends = "base"\nrequirements = ["leaf"]\n')
    project.ok("lock")
    project.ok("sync", "app")
    project.ok("verify", "app", "--tier", "static")
    return project


def told_at_once(project: Project, *words: str, **variables: str) -> bool:
    """Tell whether the answer came without the checks' being loaded."""
    argv = [sys.executable, "-X", "importtime", "-m", "envlock", "verify", "app", *words]
    env = {**project.env, **variables}
    done = subprocess.run(argv, cwd=project.root, env=env, text=True, capture_output=True, check=False)
    return "envlock.verify.checks" not in done.stderr


def test_a_verification_is_told_again_in_the_same_words(verified: Project) -> None:
    full = verified.ok("verify", "--tier", "static", "app")
    assert verified.ok("verify", "app", "--tier", "static").out == full.out
    as_json = verified.ok("verify", "app", "--tier", "static", "--json")
    assert as_json.out == verified.ok("verify", "--tier", "static", "--json", "app").out
    for words in (("--tier", "static"), ("--json", "--tier", "static")):
        assert told_at_once(verified, *words)
    # without --tier it names the tiers that were left out: another answer, remembered for itself
    assert not told_at_once(verified)
    assert told_at_once(verified)
    assert "left-out" in verified.ok("verify", "app").out
    assert not told_at_once(verified, "--tier", "static", "--deep")


CHANGES: dict[str, Callable[[Project], object]] = {
    "a file edited in place": lambda p: (p.site("app") / "leaf" / "__init__.py").write_text("# edited\n"),
    "a file deleted": lambda p: (p.site("app") / "leaf" / "__init__.py").unlink(),
    "a .pth file": lambda p: (p.site("app") / "z.pth").write_text("import os\n"),
    "the profile": lambda p: p.profile("app", 'extends = "base"\nrequirements = ["leaf>=1"]\n'),
    "its parent": lambda p: p.profile("base", 'python = "3.11"\nconstraints = ["leaf<2"]\n'),
    "the lock": lambda p: p.layout.lock("app").write_text(p.layout.lock("app").read_text() + "\n"),
    "the seal": lambda p: (p.prefix("app") / "seal" / "seal.json").touch(),
    "another generation": lambda p: p.ok("sync", "--rebuild", "app"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_verification_looks_again_after(verified: Project, what: str) -> None:
    CHANGES[what](verified)
    assert not told_at_once(verified, "--tier", "static")


def test_a_verification_looks_again_on_another_host(verified: Project, tmp_path: Path) -> None:
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    assert not told_at_once(verified, "--tier", "static", PATH=f"{tmp_path}:{verified.env['PATH']}")
    (tmp_path / ".local" / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    assert not told_at_once(verified, "--tier", "static", HOME=str(tmp_path))


def test_a_failed_verification_is_not_remembered(verified: Project) -> None:
    (verified.site("app") / "z.pth").write_text("import os\n")
    for _ in range(2):
        failed = verified.run("verify", "app", "--tier", "static")
        assert failed.code == 1
        assert "z.pth" in failed.out
    (verified.site("app") / "z.pth").unlink()
    assert "passed" in verified.ok("verify", "app", "--tier", "static").out
