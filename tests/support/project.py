"""A project in a temporary folder with its own index, caches and store: what every CLI test works on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlock.layout import Layout
from tests.support.index import LoopbackIndex
from tests.support.wheels import make_wheel

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def _hear_interrupts() -> None:
    """Undo what a shell does to a command it puts in the background: then even its children would not hear Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Result:
    """What a run of the command line left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Project:
    """A folder with profiles/, an index that serves `wheels`, and a clean environment for the command."""

    root: Path
    index: LoopbackIndex
    env: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return Layout(self.root)

    @property
    def wheels(self) -> Path:
        return self.index.folder

    def wheel(self, name: str, version: str, **options: Any) -> Path:
        return make_wheel(self.wheels, name, version, **options)

    def profile(self, name: str, text: str) -> Path:
        path = self.layout.profile(name)
        path.write_text(text)
        return path

    def simple_profile(self, name: str, *requirements: str, more: str = "") -> Path:
        listed = ", ".join(f'"{line}"' for line in requirements)
        return self.profile(name, f'python = "{PYTHON}"\nrequirements = [{listed}]\n{more}')

    def start(self, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "envlock", *words],
            cwd=self.root,
            env={**self.env, **(env or {})},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_hear_interrupts,  # noqa: PLW1509 - one call, no lock can be held
        )

    def run(self, *words: str, env: dict[str, str] | None = None) -> Result:
        process = self.start(*words, env=env)
        out, err = process.communicate(timeout=300)
        return Result(process.returncode, out, err)

    def ok(self, *words: str, env: dict[str, str] | None = None) -> Result:
        result = self.run(*words, env=env)
        assert result.code == 0, f"envlock {' '.join(words)}: {result.code}\n{result.out}\n{result.err}"
        return result

    def prefix(self, name: str) -> Path:
        return self.layout.current(name).resolve()

    def site(self, name: str) -> Path:
        return self.prefix(name) / "lib" / f"python{PYTHON}" / "site-packages"


def clean_environment(root: Path, uv_cache: Path) -> dict[str, str]:
    """Return an environment in which nothing of the machine's own settings reaches the command."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE", "PYENV_ROOT") if name in os.environ}
    home = root / "home"
    home.mkdir(exist_ok=True)
    return {**kept, "HOME": str(home), "ENVLOCK_UV_CACHE_DIR": str(uv_cache), "NO_COLOR": "1", "COLUMNS": "100"}
