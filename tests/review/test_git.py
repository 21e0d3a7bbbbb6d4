"""git, pre-commit and CI as they are really used: real repositories, the very steps of the CI files, a fake comment API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from envlock.review import texts
from tests.support.project import Project


class FakeCommentApi:
    """A fake of the two comment APIs: lists, creates and updates comments of one request, and remembers how."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = [{"id": 1, "body": "looks good"}]
        self.calls: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                return

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                data = json.loads(self.rfile.read(length) or b"{}") if length else {}
                fake.calls.append(self.command)
                if self.command == "GET":
                    answer: Any = fake.comments
                elif self.command == "POST":
                    fake.comments.append({"id": len(fake.comments) + 1, **data})
                    answer = fake.comments[-1]
                else:
                    number = int(self.path.rsplit("/", 1)[-1])
                    answer = next(one for one in fake.comments if one["id"] == number)
                    answer.update(data)
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = _answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def api() -> Iterator[FakeCommentApi]:
    fake = FakeCommentApi()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    fake.thread.join()


@pytest.fixture
def app(project: Project, tmp_path: Path) -> Project:
    """A git repository with one locked profile, and `envlock` on its PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "envlock").write_text(f'#!/bin/sh\nexec {sys.executable} -m envlock "$@"\n')
    (programs / "envlock").chmod(0o755)
    project.env["PATH"] = f"{programs}:{project.env['PATH']}"
    for key in ("AUTHOR", "COMMITTER"):
        project.env |= {f"GIT_{key}_NAME": "t", f"GIT_{key}_EMAIL": "t@example.invalid"}
    project.wheel("mm", "1.0")
    project.simple_profile("app", "mm")
    project.ok("lock")
    (project.root / ".gitignore").write_text("/.envlock/\n")
    git(project, "init", "-q", "-b", "main")
    project.ok("hook", "git", "-o", ".")
    subprocess.run(["sh", "envlock-git-setup"], cwd=project.root, env=project.env, check=True)
    git(project, "add", ".")
    git(project, "commit", "-qm", "base")
    return project


def git(project: Project, *words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["git", *words], cwd=project.root, env=project.env, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0 or not ok, done.stderr
    return done


def branch(project: Project, name: str, *requirements: str, start: str = "main") -> None:
    git(project, "checkout", "-q", start)
    git(project, "checkout", "-qb", name)
    project.simple_profile("app", *requirements)
    project.ok("lock")
    git(project, "commit", "-qam", name)


def test_git_diff_and_log_show_packages(app: Project) -> None:
    app.wheel("aa", "1.0")
    branch(app, "left", "aa", "mm")
    told = git(app, "diff", "main", "--", "locks").stdout
    assert "+aa 1.0 (pypi)" in told
    assert "sha256" not in told
    assert "+aa 1.0 (pypi)" in git(app, "log", "-p", "-1", "--", "locks").stdout


def test_branches_with_different_packages_merge_and_are_locked_again(app: Project) -> None:
    for name in ("aa", "zz"):
        app.wheel(name, "1.0")
    branch(app, "left", "aa", "mm")
    branch(app, "right", "mm", "zz")
    merged = git(app, "merge", "left", ok=False)
    assert "envlock lock app" in merged.stderr + merged.stdout
    lock = app.layout.lock("app").read_text()
    assert 'name = "aa"' in lock
    assert 'name = "zz"' in lock
    assert "<<<<" not in lock
    app.simple_profile("app", "aa", "mm", "zz")
    assert app.run("lock", "--check").code == 1
    app.ok("lock")
    assert app.run("lock", "--check").code == 0


def test_one_package_moved_on_both_sides_is_a_conflict_that_says_so(app: Project) -> None:
    app.wheel("mm", "2.0")
    app.wheel("mm", "3.0")
    branch(app, "left", "mm==2.0")
    branch(app, "right", "mm==3.0")
    merged = git(app, "merge", "left", ok=False)
    assert merged.returncode != 0
    assert "mm: 3.0 here, 2.0 there" in merged.stderr + merged.stdout


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_ci_posts_one_comment_and_updates_it(app: Project, api: FakeCommentApi, forge: str) -> None:
    app.wheel("aa", "1.0")
    base = git(app, "rev-parse", "HEAD").stdout.strip()
    branch(app, "left", "aa", "mm")
    steps = texts.GITHUB_STEPS if forge == "github" else texts.GITLAB_STEPS
    env = {
        **app.env,
        "BASE": base,
        "NUMBER": "7",
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": "team/stack",
        "GITHUB_TOKEN": "x",
        "CI_API_V4_URL": api.url,
        "CI_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "ENVLOCK_GITLAB_TOKEN": "x",
    }
    for _ in range(2):
        subprocess.run(["bash", "-euo", "pipefail", "-c", steps], cwd=app.root, env=env, check=True)
    ours = [one for one in api.comments if one["body"].startswith("<!-- envlock diff -->")]
    assert len(ours) == 1
    assert "| aa | added | 1.0 |" in ours[0]["body"]
    assert api.calls == ["GET", "POST", "GET", "PATCH" if forge == "github" else "PUT"]


def test_the_written_files_carry_the_tested_steps(app: Project) -> None:
    for kind, steps in (("github", texts.GITHUB_STEPS), ("gitlab", texts.GITLAB_STEPS)):
        written = app.ok("hook", kind).out
        lines = [line.strip() for line in steps.splitlines() if line.strip()]
        assert all(line in written for line in lines)
    assert "envlock lock --check" in app.ok("hook", "pre-commit").out


def test_the_attributes_do_not_hide_a_lock_that_cannot_be_read(app: Project) -> None:
    app.layout.lock("app").write_text("nonsense\n")
    assert "+nonsense" in git(app, "diff", "--", "locks").stdout
    assert os.path.exists(app.root / ".gitattributes")
