"""Lock files as git has them at a revision. The one place of review that asks git."""

from __future__ import annotations

import os
from pathlib import Path

from envlock import system
from envlock.errors import UsageError
from envlock.layout import Layout
from envlock.lock import text
from envlock.lock.document import Lock


def git(project: Path, *words: str) -> system.Completed:
    """Run git in a project, in plain English and without asking anybody for a password."""
    env = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    return system.run(["git", *words], cwd=project, env=env)


def resolve_revision(layout: Layout, revision: str) -> str:
    """Return the full commit of a revision. Raises UsageError when git knows none by that name."""
    done = git(layout.project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode != 0:
        raise UsageError(
            f"git knows no revision {revision!r}",
            where=str(layout.project),
            found=done.stderr.strip() or None,
            hint="fetch it first, or name a branch, tag or commit; in CI, check out with full history",
        )
    return done.stdout.strip()


def locks_at(layout: Layout, revision: str) -> dict[str, str]:
    """Return profile name -> text of every lock at a revision."""
    commit = resolve_revision(layout, revision)
    listed = git(layout.project, "ls-tree", "-z", "--name-only", commit, "locks/").stdout
    found = {}
    for path in listed.split("\0"):
        if path.startswith("locks/") and path.endswith(".toml"):
            shown = git(layout.project, "show", f"{commit}:./{path}")
            if shown.returncode == 0:
                found[path.removeprefix("locks/").removesuffix(".toml")] = shown.stdout
    return found


def lock_at(layout: Layout, revision: str, name: str) -> Lock | None:
    """Return one lock at a revision, or None when there was none. Raises LockError, UsageError."""
    content = locks_at(layout, revision).get(name)
    return None if content is None else text.parse(content, f"{revision}:locks/{name}.toml", profile=name)
