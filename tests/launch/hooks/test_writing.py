"""`envlock hook` itself: what it writes, what it refuses to replace, and how it answers wrong words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.launch.hooks.conftest import Write, run, tool
from tests.support.project import Project

ON_A_PROFILE = ("torchrun", "systemd", "supervisor", "slurm", "direnv", "vscode")


def test_without_a_kind_all_are_listed(launched: Project) -> None:
    said = launched.ok("hook").out
    for kind in (*ON_A_PROFILE, "accelerate", "sglang", "jupyter", "completion"):
        assert f"\n{kind} " in said


@pytest.mark.parametrize("kind", ON_A_PROFILE)
def test_a_hook_is_printed_and_written_alike(launched: Project, write: Write, kind: str) -> None:
    files = write(kind)
    written = "".join(path.read_text() for path in files)
    printed = launched.ok("hook", kind, "app", "-o", str(files[0].parent), "--dry-run")
    assert "unchanged" in printed.err or kind == "vscode"
    if kind != "slurm":  # the job script names the folder it lies in
        assert launched.ok("hook", kind, "app").out == written


def test_shell_scripts_pass_shellcheck(launched: Project, write: Write) -> None:
    scripts = [*write("torchrun"), *write("slurm"), write("vscode")[-1]]
    done = run([tool("shellcheck"), *scripts], launched)
    assert done.returncode == 0, done.stdout
    each = launched.ok("hook", "torchrun", "app", "--each-rank").out
    scripts[0].write_text(each)
    done = run([tool("shellcheck"), scripts[0]], launched)
    assert done.returncode == 0, done.stdout


def test_what_differs_is_not_replaced_until_forced(launched: Project, tmp_path: Path) -> None:
    target = tmp_path / "app.service"
    target.write_text("mine\n")
    refused = launched.run("hook", "systemd", "app", "-o", str(target))
    assert refused.code == 2
    assert "not replaced" in refused.err
    assert target.read_text() == "mine\n"
    dry = launched.ok("hook", "systemd", "app", "-o", str(target), "--dry-run", "--force")
    assert "would be replaced" in dry.err
    assert target.read_text() == "mine\n"
    launched.ok("hook", "systemd", "app", "-o", str(target), "--force")
    assert "[Service]" in target.read_text()
    assert "unchanged" in launched.ok("hook", "systemd", "app", "-o", str(target)).err


def test_nothing_is_written_when_one_of_several_is_in_the_way(launched: Project, tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "launch.json").write_text("{}")
    assert launched.run("hook", "vscode", "app", "-o", str(tmp_path)).code == 2
    assert os.listdir(tmp_path / ".vscode") == ["launch.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("hook", "sistemd", "app"), "did you mean 'systemd'"),
        (("hook", "systemd"), "There are: app, gpu"),
        (("hook", "systemd", "ap"), "did you mean 'app'"),
        (("hook", "direnv", "app", "--", "python"), "takes no command"),
        (("hook", "systemd", "app", "--each-rank"), "--each-rank is for torchrun"),
        (("hook", "torchrun", "app", "--user", "x"), "are for systemd and supervisor"),
        (("hook", "completion", "app"), "same for every profile"),
        (("hook", "supervisor", "app", "--", "python", "a\nb"), "line break"),
        (("hook", "vscode", "app", "-o", "/etc/hostname"), "is no folder"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(launched: Project, words: tuple[str, ...], told: str) -> None:
    done = launched.run(*words)
    assert done.code == 2
    assert told in done.err
    assert "try" in done.err


@pytest.mark.parametrize(("kind", "package"), [("jupyter", "ipykernel"), ("sglang", "sglang"), ("accelerate",) * 2])
def test_an_environment_that_cannot_serve_a_hook_is_told_before(launched: Project, kind: str, package: str) -> None:
    done = launched.run("hook", kind, "app")
    assert done.code == 1
    assert f'add "{package}" to requirements in profiles/app.toml' in done.err
    assert done.out == ""
