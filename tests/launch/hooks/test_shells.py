"""Entering an environment with a real shell: activate and deactivate, `envlock shell`, direnv, completion."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.hooks.conftest import Write, run, tool
from tests.support.project import Project

POSIX = pytest.mark.parametrize("shell", ["bash", "zsh", "dash"])
EVERY = pytest.mark.parametrize("shell", ["bash", "zsh", "dash", "fish"])
ENVLOCK = f"{sys.executable} -m envlock"
DUMP = "import json,os; print(json.dumps({k: os.environ.get(k) for k in ('VIRTUAL_ENV','LD_LIBRARY_PATH','ENVLOCK_VERDICT')}))"
POLLUTED = {
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "PYTHONPATH": "/x y",
    "TRITON_CACHE_DIR": 'it\'s $mine\n"b" \\n',
}


def ask(project: Project, shell: str, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = ["-f"] if shell == "zsh" else []
    return run([tool(shell), *clean, "-c", text], project, env=env)


def environment(project: Project) -> str:
    return (
        f'{sys.executable} -c \'import os; print(sorted(i for i in os.environ.items() if i[0] not in ("_", "SHLVL")))\''
    )


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_gc_keeps_what_a_shell_is_in_until_it_leaves(launched: Project, shell: str) -> None:
    launched.ok("sync", "--rebuild", "app")
    first = launched.prefix("app").name
    listing = f"{ENVLOCK} gc app --keep 0 --dry-run --json"
    text = f"""
    eval "$({ENVLOCK} activate app)"
    {ENVLOCK} sync --rebuild app 2>/dev/null
    {listing}
    envlock_deactivate
    {listing}
    """
    done = ask(launched, shell, text)
    assert done.returncode == 0, done.stderr
    entered, left = (json.loads("{" + part) for part in ("\n" + done.stdout).split("\n{")[1:])
    assert first not in entered["removed"]["app"]
    assert first in left["removed"]["app"]


@POSIX
def test_deactivation_restores_every_variable(launched: Project, shell: str) -> None:
    text = f"""
    PS1='mine> '; CUDA_CACHE_PATH=of-the-shell
    {environment(launched)}
    eval "$({ENVLOCK} activate app)"
    echo "prompt $PS1"
    python -c "{DUMP}"
    leafy
    envlock_deactivate
    {environment(launched)}
    echo "prompt $PS1 $CUDA_CACHE_PATH"
    command -v envlock_deactivate || echo gone
    set | grep '^_envlock' || echo clean
    """
    done = ask(launched, shell, text, **POLLUTED)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "prompt (app) mine> "
    inside = json.loads(lines[2])
    assert inside == {"VIRTUAL_ENV": str(launched.prefix("app")), "LD_LIBRARY_PATH": None, "ENVLOCK_VERDICT": "pass"}
    assert lines[3] == "leafy"
    assert lines[4] == lines[0]
    assert lines[5:] == ["prompt mine>  of-the-shell", "gone", "clean"]


def test_fish_restores_every_variable(launched: Project) -> None:
    text = f"""
    {environment(launched)}
    {ENVLOCK} activate app --shell fish | source
    string match -q '(app) *' (fish_prompt); and echo marked
    python -c "{DUMP}"
    envlock_deactivate
    {environment(launched)}
    string match -q '(app) *' (fish_prompt); or echo unmarked
    functions -q envlock_deactivate; or echo gone
    """
    done = ask(launched, "fish", text, **POLLUTED)
    lines = done.stdout.splitlines()
    assert lines[1] == "marked", done.stderr
    assert json.loads(lines[2])["VIRTUAL_ENV"] == str(launched.prefix("app"))
    assert lines[3:] == [lines[0], "unmarked", "gone"]


@POSIX
def test_activating_another_leaves_the_first(launched: Project, shell: str) -> None:
    text = f"""
    PS1='> '
    {environment(launched)}
    eval "$({ENVLOCK} activate gpu --no-gpu)"
    eval "$(envlock -C . activate app)"
    echo "$PS1"
    python -c "{DUMP}"
    envlock_deactivate
    {environment(launched)}
    """
    lines = ask(launched, shell, text).stdout.splitlines()
    assert lines[1] == "(app) > "
    assert json.loads(lines[2])["VIRTUAL_ENV"] == str(launched.prefix("app"))
    assert lines[3] == lines[0]


def test_a_refused_environment_is_not_entered(own: Project) -> None:
    os.unlink(own.site("app") / "leaf" / "cli.py")
    done = ask(own, "bash", f'eval "$({ENVLOCK} activate app)"; echo "${{VIRTUAL_ENV-none}}"')
    assert done.stdout == "none\n"
    assert "has drifted from its seal" in done.stderr
    shell = own.run("shell", "app")
    assert shell.code == 125
    assert "envlock sync --rebuild app" in shell.err


def on_terminal(argv: list[str], typed: str, env: dict[str, str], cwd: Path) -> str:
    """Type into a program on a terminal of its own, and return all that it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    shown, sent, end = b"", False, time.monotonic() + 30
    while time.monotonic() < end:
        ready = select.select([terminal], [], [], 0.3)[0]
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        elif not sent and b"(app)" in shown:
            os.write(terminal, typed.encode())
            sent = True
    else:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode(errors="replace")


@EVERY
def test_an_interactive_shell_is_marked_and_keeps_the_environment_past_the_users_own_settings(
    launched: Project, shell: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".config" / "fish").mkdir(parents=True)
    (home / ".bashrc").write_text("export LD_LIBRARY_PATH=/usr/local/cuda/lib64 PATH=/stray:$PATH MINE=read\n")
    (home / ".zshrc").write_text((home / ".bashrc").read_text())
    (home / ".config" / "fish" / "config.fish").write_text(
        "set -gx LD_LIBRARY_PATH /usr/local/cuda/lib64\nset -gx PATH /stray $PATH\nset -gx MINE read\n"
    )
    code = "import os,sys; e=os.environ.get; print('<' + '|'.join([sys.prefix, str(e('LD_LIBRARY_PATH')), str('/stray' in e('PATH')), str(e('MINE'))]) + '>')"
    env = {**launched.env, "SHELL": tool(shell), "HOME": str(home), "TERM": "dumb"}
    shown = on_terminal(
        [sys.executable, "-m", "envlock", "shell", "app"], f'python -c "{code}"\nexit\n', env, launched.root
    )
    mine = "None" if shell == "dash" else "read"  # dash reads no file of the user's by itself
    assert f"<{launched.prefix('app')}|None|False|{mine}>" in shown
    assert not list((launched.layout.cache / "shell").glob("*")) or shell == "fish"


def test_direnv_enters_and_leaves(launched: Project, write: Write) -> None:
    (envrc,) = write("direnv")
    assert envrc.name == ".envrc"
    direnv = tool("direnv")
    assert run([direnv, "allow", envrc], launched, cwd=envrc.parent).returncode == 0
    done = run([direnv, "exec", envrc.parent, "python", "-c", DUMP], launched, env=POLLUTED)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "VIRTUAL_ENV": str(launched.prefix("app")),
        "LD_LIBRARY_PATH": None,
        "ENVLOCK_VERDICT": "pass",
    }
    text = f"""
    cd {envrc.parent}; eval "$({direnv} export bash)"; echo "$VIRTUAL_ENV ${{LD_LIBRARY_PATH-none}}"
    cd /; eval "$({direnv} export bash)"; echo "${{VIRTUAL_ENV-none}} $LD_LIBRARY_PATH"
    """
    lines = ask(launched, "bash", text, **POLLUTED).stdout.splitlines()
    assert lines == [f"{launched.prefix('app')} none", f"none {POLLUTED['LD_LIBRARY_PATH']}"]


def test_direnv_does_not_enter_what_is_not_in_order(own: Project, write: Write) -> None:
    (envrc,) = write("direnv", project=own)
    os.unlink(own.site("app") / "leaf" / "cli.py")
    run([tool("direnv"), "allow", envrc], own, cwd=envrc.parent)
    done = run([tool("direnv"), "exec", envrc.parent, "true"], own)
    assert done.returncode != 0
    assert "was not entered" in done.stderr


def test_vscode_reads_valid_settings_that_lead_through_envlock(launched: Project, write: Write) -> None:
    settings, debugging, interpreter = write("vscode")
    told = json.loads(settings.read_text())
    assert Path(told["python.defaultInterpreterPath"]).samefile(launched.prefix("app") / "bin" / "python")
    terminal = told["terminal.integrated.profiles.linux"][told["terminal.integrated.defaultProfile.linux"]]
    help_ = run([terminal["path"], *terminal["args"], "--help"], launched)
    assert "Usage: envlock shell" in help_.stdout
    python = json.loads(debugging.read_text())["configurations"][0]["python"]
    assert python == f"${{workspaceFolder}}/.vscode/{interpreter.name}"
    done = run([interpreter, "-c", DUMP], launched)
    assert json.loads(done.stdout)["ENVLOCK_VERDICT"] == "pass"


COMPLETING = {
    "bash": """
        eval "$(envlock completion bash)"
        COMP_WORDS=({words} "{last}") COMP_CWORD={count} COMP_LINE="{words} {last}"
        _envlock_completion envlock; printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ : }}  # the line editor's part: what it would be handed is printed
        _describe() {{ print -l -- "${{(@P)3}}" }}
        compadd() {{ print -l -- "${{(@P)5}}" }}
        eval "$(envlock completion zsh)"
        words=({words} "{last}") CURRENT=$((1 + {count}))
        _envlock_completion
    """,
    "fish": "envlock completion fish | source; complete -C '{words} {last}'",
}


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
@pytest.mark.parametrize(
    ("words", "last", "expected"),
    [
        ("envlock", "ver", "verify"),
        ("envlock run", "ap", "app"),
        ("envlock shell", "", "gpu"),
        ("envlock activate", "a", "app"),
        ("envlock hook", "sys", "systemd"),
        ("envlock hook systemd", "g", "gpu"),
        ("envlock verify", "--ti", "--tier"),
    ],
)
def test_shells_complete_commands_options_and_profiles(
    launched: Project, shell: str, words: str, last: str, expected: str
) -> None:
    path = f"{Path(sys.executable).parent}:{launched.env['PATH']}"
    text = COMPLETING[shell].format(words=words, last=last, count=len(words.split()))
    done = ask(launched, shell, text, PATH=path)
    found = [line.partition(":")[0].partition("\t")[0] for line in done.stdout.splitlines()]
    assert expected in found, done.stdout + done.stderr
