"""SGLang's hook, before a stand-in for its server: which words arrive, and what is said about them first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launch.hooks.conftest import run
from tests.support.project import Project

SERVER = "import json, sys\n\n\ndef main():\n    print(json.dumps([__name__, *sys.argv[1:]]))\n\n\nif __name__ == '__main__':\n    main()\n"


def prepared(project: Project, tmp_path: Path, more: str = "") -> Path:
    project.wheel(
        "sglang",
        "0.5.14",
        files={"sglang/launch_server.py": SERVER, "sglang/cli.py": SERVER},
        scripts={"sglang": "sglang.cli:main"},
    )
    project.simple_profile("serve", "sglang", more=f'[gpu]\ncompute-capability = "12.0"\n{more}')
    project.ok("lock", "serve")
    project.ok("sync", "serve")
    script = tmp_path / "start"
    project.ok("hook", "sglang", "serve", "--no-gpu", "-o", str(script))
    return script


def test_the_server_gets_its_words_and_the_backend_without_code_is_told(project: Project, tmp_path: Path) -> None:
    script = prepared(project, tmp_path)
    words = ["--model-path", "a b", "--attention-backend", "fa3"]
    for _ in range(2):  # the second launch has a ticket of the first
        done = run([script, *words], project)
        assert json.loads(done.stdout) == ["__main__", *words]
        assert "--attention-backend fa3: FlashAttention 3 is built for SM80 to SM90 only" in done.stderr
        assert "use --attention-backend flashinfer" in done.stderr
    done = run([script, "--attention-backend", "flashinfer"], project)
    assert (done.returncode, done.stderr) == (0, "")
    done = run([script, "serve", "MODEL", "--attention-backend=fa3"], project)
    assert json.loads(done.stdout) == ["sglang.cli", "serve", "MODEL", "--attention-backend=fa3"]
    assert "FlashAttention 3" in done.stderr


@pytest.mark.parametrize("words", [["--attention-backend", "fa3"], ["serve", "MODEL", "--attention-backend", "fa3"]])
def test_the_profile_can_have_such_words_refused(project: Project, tmp_path: Path, words: list[str]) -> None:
    script = prepared(project, tmp_path, '[kernels]\nlint = "error"\n')
    done = run([script, *words], project)
    assert done.returncode == 125
    assert done.stdout == ""
    assert "profiles/serve.toml" in done.stderr
