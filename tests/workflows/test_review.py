"""diff, why, tree, outdated, history, rollback, pin, gc and export through the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envlock.environment import store
from tests.support.project import Project


def git(project: Project, *words: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    argv = ["git", *names, *words]
    return subprocess.run(argv, cwd=project.root, text=True, capture_output=True, check=True).stdout


@pytest.fixture
def app(project: Project) -> Project:
    project.wheel("leaf", "1.0")
    project.wheel("tree", "1.0", requires=["leaf>=1"])
    project.simple_profile("app", "tree")
    project.ok("lock")
    git(project, "init", "-q", "-b", "main")
    (project.root / ".gitignore").write_text("/.envlock/\n/home/\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    return project


def upgrade(project: Project, version: str = "2.0") -> None:
    project.wheel("leaf", version)
    project.ok("lock", "--upgrade")


def test_diff_against_git_and_its_exit_codes(app: Project) -> None:
    assert app.run("diff", "--exit-code").code == 0
    upgrade(app)
    result = app.run("diff", "--exit-code", "--json")
    assert result.code == 1
    assert result.json["packages"][0]["to"] == "2.0"
    git(app, "commit", "-qam", "two")
    assert "leaf  1.0 -> 2.0" in app.ok("diff", "--base", "HEAD~1").out
    assert "leaf  1.0 -> 2.0" in app.ok("diff", "HEAD~1..HEAD").out
    assert app.run("diff", "--base", "HEAD~1", "--fail-on", "critical").code == 0
    wrong = app.run("diff", "--base", "nowhere")
    assert wrong.code == 2
    assert "git knows no revision" in wrong.err


def test_diff_of_profiles_environments_generations_files_and_nothing(app: Project) -> None:
    app.ok("sync")
    upgrade(app)
    app.ok("sync")
    app.simple_profile("other", "leaf")
    app.ok("lock", "other")
    assert "tree" in app.ok("diff", "app", "other").out
    assert app.ok("diff", "app", "app@env").out.strip().endswith("no difference")
    assert "leaf  1.0 -> 2.0" in app.ok("diff", "app@0001", "app@env").out
    assert "leaf  1.0 -> 2.0" in app.ok("diff", "HEAD:app", "locks/app.toml").out
    page = app.root / "diff.html"
    app.ok("diff", "app", "other", "--format", "html", "-o", str(page))
    assert page.read_text().startswith("<!DOCTYPE html>")
    nothing = app.run("diff", "app", "what")
    assert nothing.code == 2
    assert "names no lock" in nothing.err


def test_why_tree_and_outdated(app: Project) -> None:
    result = app.ok("why", "app", "leaf", "--json").json
    assert result["paths"] == [["requirements: tree", "tree 1.0 requires leaf>=1"]]
    assert result["held_by"] == ["tree 1.0 requires leaf>=1"]
    assert app.run("why", "app", "laef").code == 2
    assert app.ok("tree", "app").out.splitlines() == ["tree 1.0", "  leaf 1.0  (leaf>=1)"]
    assert app.ok("tree", "app", "--invert", "leaf").out.splitlines()[1].strip().startswith("tree 1.0")
    app.wheel("leaf", "3.0")
    before = app.layout.lock("app").read_text()
    assert "leaf 1.0 -> 3.0" in app.ok("outdated").out
    assert app.layout.lock("app").read_text() == before


def test_why_it_moved(app: Project) -> None:
    app.wheel("tree", "2.0", requires=["leaf>=2"])
    upgrade(app)
    result = app.ok("why", "app", "leaf", "--since", "HEAD:app", "--json").json
    assert result["moved_by"] == ["tree 2.0 requires leaf>=2"]


def test_history_rollback_and_its_lock(app: Project) -> None:
    app.ok("sync")
    first = app.layout.lock("app").read_text()
    upgrade(app)
    app.ok("sync")
    rows = app.ok("history", "app", "--json").json["generations"]
    assert [row["change"] for row in rows] == ["2 packages", "1 changed: leaf"]
    assert rows[1]["current"] is True
    assert len(rows[0]["commit"]) == 40
    done = app.ok("rollback", "app", "--json").json
    assert done["after"] == rows[0]["generation"]
    assert store.current_generation(app.layout, "app") == rows[0]["generation"]
    refused = app.run("run", "app", "--", "true")
    assert refused.code == 125
    kept = app.layout.lock("app").read_text()
    asked = app.run("rollback", "app", "1", "--lock")
    assert asked.code != 0 or app.layout.lock("app").read_text() == kept
    app.ok("rollback", "app", "1", "--lock", "--yes")
    assert app.layout.lock("app").read_text() == first
    app.ok("run", "app", "--", "python", "-c", "import leaf; assert leaf.__version__ == '1.0'")
    unknown = app.run("rollback", "app", "9")
    assert unknown.code == 2
    assert "no generation '9'" in unknown.err


def test_a_rollback_by_its_plainest_words_says_and_writes_the_same(app: Project) -> None:
    app.ok("sync")
    upgrade(app)
    app.ok("sync")
    first, second = store.generations(app.layout, "app")
    done = app.ok("rollback", "app")
    assert f"app: {second} -> {first}; lock file left as it is" in done.err
    assert "envlock rollback --lock app" in done.err
    assert store.current_generation(app.layout, "app") == first
    event = store.read_history(app.layout, "app")[-1]
    sealed = store.read_seal(app.layout.generation("app", first))
    assert (event["event"], event["before"], event["generation"]) == ("rolled-back", second, first)
    assert event["lock_digest"] == sealed.lock_digest
    assert event["commit"] == git(app, "rev-parse", "HEAD").strip()
    assert app.run("rollback", "app").code == 2  # there is none before the first
    app.ok("rollback", "app", "2")
    assert store.current_generation(app.layout, "app") == second


def test_a_rollback_to_the_same_lock_says_nothing_of_refusals(app: Project) -> None:
    app.ok("sync")
    app.ok("sync", "--rebuild")
    done = app.ok("rollback", "app")
    assert "lock file unchanged" in done.err
    assert "refuse" not in done.err
    app.ok("run", "app", "--", "true")


@pytest.mark.parametrize("words", [("rollback", "app"), ("rollback", "app", "--json")], ids=["plain", "json"])
@pytest.mark.parametrize("damage", ["edited", "deleted", "moved", "unsealed"])
def test_nobody_goes_back_to_what_would_not_start(app: Project, words: tuple[str, ...], damage: str) -> None:
    app.ok("sync")
    upgrade(app)
    app.ok("sync")
    first, second = (app.layout.generation("app", one) for one in store.generations(app.layout, "app"))
    module = next(first.rglob("site-packages/leaf/__init__.py"))
    if damage == "edited":
        module.unlink()
        module.write_text("__version__ = '6.6.6'\n")
    elif damage == "deleted":
        module.unlink()
    elif damage == "moved":
        first.rename(first.with_name("0001-00000000"))
    else:
        (first / "seal" / "guard").unlink()
    refused = app.run(*words)
    assert refused.code == 1
    assert "is not as it was sealed" in refused.err
    assert "envlock history app" in refused.err
    assert store.current_generation(app.layout, "app") == second.name


def test_collection_keeps_what_is_needed_and_counts_links_once(app: Project) -> None:
    for _ in range(4):
        app.ok("sync", "--rebuild")
    there = store.generations(app.layout, "app")
    assert len(there) == 4
    app.ok("pin", "app", "1")
    busy = app.layout.generation("app", there[1]) / "bin" / "python"
    process = subprocess.Popen(
        [busy, "-c", "import time; print('up', flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        plan = app.ok("gc", "--keep", "0", "--dry-run", "--json").json
        assert plan["removed"]["app"] == [there[2]]
        reasons = {one["generation"]: one["reason"] for one in plan["kept"]["app"]}
        assert reasons[there[0]] == "pinned"
        assert f"pid {process.pid}" in reasons[there[1]]
        assert reasons[there[3]] == "current"
        assert 0 < plan["freed"] <= plan["apparent"]
        app.ok("gc", "--keep", "0")
        assert store.generations(app.layout, "app") == (there[0], there[1], there[3])
    finally:
        process.kill()
        process.communicate()
    app.ok("unpin", "app", "1")
    app.ok("gc", "--keep", "0")
    assert store.generations(app.layout, "app") == (there[3],)
    leftover = app.layout.generation("app", "0099-deadbeef")
    leftover.mkdir()
    app.ok("gc")
    assert not leftover.exists()


def test_exports_install_elsewhere_and_repeat(app: Project, tmp_path: Path) -> None:
    from envlock.resolve import uv

    first = app.ok("export", "app", "--format", "requirements").out
    assert app.ok("export", "app", "--format", "requirements").out == first
    for form, file in (("requirements", "requirements.txt"), ("pylock", "pylock.toml")):
        path = tmp_path / file
        app.ok("export", "app", "--format", form, "-o", str(path))
        venv = tmp_path / f"venv-{form}"
        subprocess.run([uv.binary(), "venv", "-q", venv, "--python", sys.executable], check=True)
        where = [] if form == "pylock" else ["--default-index", app.index.url, "--require-hashes"]
        argv: list[str | Path] = [uv.binary(), "pip", "install", "-q", "--python", venv, *where, "-r", path]
        subprocess.run(argv, check=True, env={**app.env})
        shown = subprocess.run(
            [venv / "bin" / "python", "-c", "import tree, leaf; print(leaf.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.strip() == "1.0"
    assert app.ok("export", "app", "--format", "constraints").out.splitlines()[1:] == ["leaf==1.0", "tree==1.0"]
    bill = json.loads(app.ok("export", "app", "--format", "cyclonedx").out)
    assert [one["purl"] for one in bill["components"]] == ["pkg:pypi/leaf@1.0", "pkg:pypi/tree@1.0"]
    (app.wheels / "leaf-1.0-py3-none-any.whl").unlink()
    shutil.rmtree(app.layout.home, ignore_errors=True)
    gone = app.run("export", "app", "--format", "pylock", env={"ENVLOCK_UV_CACHE_DIR": str(tmp_path / "cold")})
    assert gone.code == 1


def test_status_tells_at_one_glance(app: Project) -> None:
    assert app.ok("status", "--json").json["profiles"][0]["synced"] == "missing"
    app.ok("sync")
    assert app.ok("status", "--json").json["profiles"][0]["synced"] == "current"
    upgrade(app)
    assert app.ok("status", "--json").json["profiles"][0]["synced"] == "stale"
    app.ok("sync")
    (app.site("app") / "stray.py").write_text("")
    one = app.ok("status", "--json").json["profiles"][0]
    assert one["synced"] == "drifted"
    assert "stray.py" in one["notes"][0]
    app.simple_profile("app", "tree", "more")
    assert app.ok("status", "--json").json["profiles"][0]["locked"] == "stale"
    app.profile("app", "nonsense = 1\n")
    assert app.ok("status", "--json").json["profiles"][0]["locked"] == "broken"
