"""What envlock adds to every environment: the guard, and a pip that answers and refuses. A proper distribution each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources

DISTRIBUTION = "envlock-guard"
VERSION = "1"
"""Of the guard's interface; the files' hashes are in RECORD."""


def files(site: str, *, has_pip: bool = False) -> dict[str, bytes]:
    """Return relative path -> content to write into a prefix; `site` is site-packages below it.

    With a real pip in the lock (`has_pip`) its modules stay as they are, and only the commands in `bin` and a line that
    Python reads at start stand before it. The same bytes for every prefix: `bin/pip` finds the Python beside it.
    """
    guard = _source("envlock_guard.py")
    pip = _source("pip_main.py")
    modules: dict[str, bytes] = {"envlock_guard.py": guard}
    if has_pip:
        modules["_envlock_pip.py"] = pip
        modules["envlock_pip.pth"] = b"import sys; '-m' in sys.orig_argv and __import__('_envlock_pip').gate()\n"
        entry = "_envlock_pip"
    else:
        modules["pip/__init__.py"] = b'"""Not pip: envlock answers in its place."""\n'
        modules["pip/__main__.py"] = pip
        entry = "pip.__main__"
    scripts = {f"bin/{name}": _script(entry) for name in ("pip", "pip3")}
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {VERSION}\n"
        "Summary: Stops a program that does not run in its sealed environment\n".encode(),
        "WHEEL": b"Wheel-Version: 1.0\nGenerator: envlock\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "INSTALLER": b"envlock\n",
    }
    folder = f"{DISTRIBUTION.replace('-', '_')}-{VERSION}.dist-info"
    placed = {**modules, **{f"{folder}/{name}": content for name, content in metadata.items()}}
    depth = site.count("/") + 1
    record = [_line(path, content) for path, content in placed.items()]
    record += [_line("../" * depth + path, content) for path, content in scripts.items()]
    placed[f"{folder}/RECORD"] = "".join([*record, f"{folder}/RECORD,,\n"]).encode()
    return {**{f"{site}/{path}": content for path, content in placed.items()}, **scripts}


def record(*, profile: str, generation: str, prefix: str, digest: str, cuda: str | None) -> bytes:
    """Return `seal/guard`: what the guard knows of its environment, one `key value` a line, read without json."""
    facts: Mapping[str, str] = {
        "profile": profile,
        "generation": generation,
        "prefix": prefix,
        "digest": digest,
        "cuda": cuda or "",
    }
    return "".join(f"{key} {value}\n" for key, value in facts.items()).encode("utf-8", "surrogateescape")


def _source(name: str) -> bytes:
    return (resources.files("envlock.guard") / name).read_bytes()


def _line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _script(module: str) -> bytes:
    """Return a console script without an absolute path in it: sh looks for the Python beside it, then Python reads."""
    return (
        "#!/bin/sh\n"
        '\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")/python" -I "$0" "$@"\n'
        "' '''\n"
        "import sys\n"
        f"from {module} import main\n"
        "sys.exit(main())\n"
    ).encode()
