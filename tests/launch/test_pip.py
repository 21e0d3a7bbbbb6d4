"""pip inside a sealed environment: true answers, no installation, and an override that leaves its mark."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.project import Project

WAYS = (["bin/pip"], ["bin/pip3"], ["bin/python", "-m", "pip"])


def pip(
    project: Project, way: list[str], *words: str, env: dict[str, str] | None = None, name: str = "app"
) -> subprocess.CompletedProcess[str]:
    prefix = project.layout.current(name)  # through the link, as people do
    argv = [os.fspath(prefix / way[0]), *way[1:], *words]
    return subprocess.run(argv, env={**project.env, **(env or {})}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", WAYS, ids=["pip", "pip3", "python -m pip"])
def test_it_answers_truthfully(launched: Project, way: list[str]) -> None:
    listed = pip(launched, way, "list")
    assert listed.returncode == 0
    assert "leaf                     1.0" in listed.stdout
    frozen = pip(launched, way, "freeze").stdout.splitlines()
    assert frozen == ["leaf==1.0", "nvidia-cuda-runtime-cu12==12.8.90", "torch==2.10.0"]
    as_json = json.loads(pip(launched, way, "list", "--format", "json").stdout)
    assert {"name": "torch", "version": "2.10.0"} in as_json
    shown = pip(launched, way, "show", "torch").stdout
    assert "Version: 2.10.0" in shown
    assert "Requires: nvidia-cuda-runtime-cu12" in shown
    location = next(line for line in shown.splitlines() if line.startswith("Location: ")).partition(" ")[2]
    assert os.path.realpath(location) == os.fspath(launched.site("app"))
    assert "Required-by: torch" in pip(launched, way, "show", "nvidia_cuda.runtime-cu12").stdout
    assert "leaf/cli.py" in pip(launched, way, "show", "-f", "leaf").stdout
    assert pip(launched, way, "show", "nonesuch").returncode == 1
    checked = pip(launched, way, "check")
    assert (checked.returncode, checked.stdout) == (0, "No broken requirements found.\n")
    assert pip(launched, way, "--version").returncode == 0


@pytest.mark.parametrize("way", WAYS, ids=["pip", "pip3", "python -m pip"])
@pytest.mark.parametrize("verb", ["install", "uninstall", "download", "wheel", "cache", "no-such-verb"])
def test_it_refuses_to_change_anything(launched: Project, way: list[str], verb: str) -> None:
    result = pip(launched, way, verb, "--upgrade", "six")
    assert result.returncode == 1
    assert result.stdout == ""
    assert "envlock add app six" in result.stderr
    assert "envlock lock app && envlock sync app" in result.stderr
    assert launched.ok("run", "app", "--", "true").code == 0


def test_check_tells_what_is_broken(own: Project) -> None:
    metadata = own.site("app") / "leaf-1.0.dist-info" / "METADATA"
    text = metadata.read_text()
    metadata.unlink()
    more = "Requires-Dist: missing\nRequires-Dist: also-missing; extra == 'x'\nRequires-Dist: not-here; python_version < '3'\n"
    metadata.write_text(text + more)
    result = pip(own, ["bin/pip"], "check")
    assert result.returncode == 1
    assert "leaf 1.0 requires missing, which is not installed." in result.stdout
    assert "also-missing" not in result.stdout


@pytest.mark.parametrize("words", [("--envlock-override",), ()])
def test_an_override_installs_and_marks_the_environment_as_drifted(own: Project, words: tuple[str, ...]) -> None:
    own.ok("run", "app", "--", "true")
    env = {} if words else {"ENVLOCK_ALLOW_PIP": "1"}
    result = pip(own, ["bin/pip"], *words, "uninstall", "-y", "leaf", env=env)
    assert "counts as drifted" in result.stderr, result
    assert result.returncode == 0, result
    assert not (own.site("app") / "leaf").exists()
    refused = own.run("run", "app", "--", "true")
    assert refused.code == 125
    assert "drifted" in refused.err


def test_a_real_pip_of_the_lock_is_kept_from_installing_too(own: Project, launched: Project) -> None:
    from tests.support.wheels import make_wheel

    real = "import sys\nprint('real pip', *sys.argv[1:])\n"
    make_wheel(launched.root.parent / "wheels", "pip", "99.0", files={"pip/__main__.py": real})
    own.simple_profile("real", "pip")
    own.ok("lock", "real")
    own.ok("sync", "real")
    module = ["bin/python", "-m", "pip"]
    assert pip(own, module, "list", name="real").stdout == "real pip list\n"
    refused = pip(own, module, "install", "six", name="real")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "envlock add real six" in refused.stderr
    assert pip(own, ["bin/pip"], "install", "six", name="real").returncode == 1
    assert "pip           99.0" in pip(own, ["bin/pip3"], "list", name="real").stdout
