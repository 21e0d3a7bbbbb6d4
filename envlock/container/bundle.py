"""envlock itself as a tree to be pushed into a place: a wheel of this source, installed with what it needs.

Made on this machine, so that the place needs neither a network nor pip: only a Python of its own. Effects.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import envlock
from envlock import disk, system
from envlock.container.declaration import TOOL
from envlock.errors import ContainerError
from envlock.resolve import uv

DISTRIBUTION = "envlock-gpu"
_SCRIPT = f"#!{TOOL}/bin/python -I\nfrom envlock.__main__ import main\n\nmain()\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def tool_digest() -> str:
    """Return sixteen hex digits over this envlock's own files and the versions of what it needs."""
    total = hashlib.sha256(_SCRIPT.encode())
    for name, content in _sources().items():
        total.update(f"{name}\0".encode() + content)
    for name, version in _requirements().items():
        total.update(f"{name}=={version}\0".encode())
    return total.hexdigest()[:16]


def bundle(cache: Path, python: str, machine: str) -> Path:
    """Return a folder with the shape of a venv at TOOL for that Python (`3.12`); made once and kept in `cache`.

    Raises ContainerError when the Python is too old or uv cannot get what envlock needs.
    """
    if tuple(int(part) for part in python.split(".")) < (3, 11):
        raise ContainerError(
            "the container's Python is too old for envlock",
            expected="3.11 or newer",
            found=python,
            hint="declare a newer release: Debian bookworm and Ubuntu noble have one",
        )
    final = cache / "tool" / f"{tool_digest()}-{python}-{machine}"
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".making-") as making:
        tree = Path(making) / "tree"
        packages = tree / "lib" / f"python{python}" / "site-packages"
        packages.mkdir(parents=True)
        wheel = write_wheel(Path(making))
        _install(wheel, packages, python, machine)
        programs = tree / "bin"
        programs.mkdir()
        (packages / "bin" / "uv").rename(programs / "uv")
        disk.remove_tree(packages / "bin")
        (programs / "python").symlink_to("/usr/bin/python3")
        (programs / "envlock").write_text(_SCRIPT)
        (programs / "envlock").chmod(0o755)
        (tree / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
        try:
            tree.rename(final)
        except OSError:
            if not final.is_dir():  # another envlock was quicker
                raise
    return final


def _install(wheel: Path, target: Path, python: str, machine: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("UV_PYTHON", "VIRTUAL_ENV")}
    pins = "".join(f"{name}=={version}\n" for name, version in _requirements().items())
    constraints = wheel.with_name("constraints.txt")
    constraints.write_text(pins)
    done = system.run(
        (
            *(uv.binary(), "pip", "install", "--quiet", "--target", str(target), "--python", sys.executable),
            *("--python-version", python, "--python-platform", f"{machine}-manylinux_2_28", "--only-binary", ":all:"),
            *("--link-mode", "copy", "--constraints", str(constraints), str(wheel)),
        ),
        env=environment,
        timeout=300,
    )
    if done.returncode != 0:
        raise ContainerError(
            "envlock could not be made ready for the container",
            details=done.stderr.strip().splitlines()[-8:],
            hint="uv on this machine needs its cache or an index for envlock's own dependencies",
        )


def write_wheel(folder: Path) -> Path:
    """Write a wheel of the running envlock into `folder` and return it; the same bytes for the same source."""
    stem = f"{DISTRIBUTION.replace('-', '_')}-{envlock.__version__}"
    files = dict(_sources())
    info = f"{stem}.dist-info"
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: envlock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nenvlock = envlock.__main__:main\n"
    lines = [f"{name},sha256={_url_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return wheel


def _url_digest(content: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _sources() -> Mapping[str, bytes]:
    root = Path(envlock.__file__).parent
    return {
        path.relative_to(root.parent).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _metadata() -> str:
    """Return the core metadata of the running envlock, its long description left out."""
    text = metadata.distribution(DISTRIBUTION).read_text("METADATA") or ""
    head = text.partition("\n\n")[0]
    return "\n".join(line for line in head.splitlines() if not line.startswith("License-File:")) + "\n"


def _requirements() -> Mapping[str, str]:
    """Return name -> installed version of everything envlock needs at run time, found through the metadata."""
    found: dict[str, str] = {}
    pending = [DISTRIBUTION]
    while pending:
        for text in metadata.requires(pending.pop()) or ():
            if "extra ==" in text:
                continue
            match = re.match(r"[A-Za-z0-9._-]+", text)
            name = match[0] if match else text
            try:
                version = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue  # its marker does not hold here
            if name not in found:
                found[name] = version
                pending.append(name)
    return dict(sorted(found.items()))
