"""Real source trees that build without a build requirement: the backend is a module of their own."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

_BACKEND = """
import base64, hashlib, os, zipfile

NAME, VERSION, REQUIRES = {name!r}, {version!r}, {requires!r}
INFO = f"{{NAME}}-{{VERSION}}.dist-info"
METADATA = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n" + "".join(
    f"Requires-Dist: {{line}}\\n" for line in REQUIRES)


try:
    import helper
    HELPER = helper.__version__
except ImportError:
    HELPER = None


def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {{
        f"{{NAME}}/__init__.py": f"__version__ = {{VERSION!r}}\\nBUILT = {{[os.environ.get('BUILD_FLAG'), HELPER]!r}}\\n",
        f"{{INFO}}/METADATA": METADATA,
        f"{{INFO}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{{path}},sha256={{digest}},{{len(text.encode())}}\\n"
    files[f"{{INFO}}/RECORD"] = record + f"{{INFO}}/RECORD,,\\n"
    name = f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name


def build_sdist(folder, config_settings=None):
    raise NotImplementedError
"""


def make_source(folder: Path, name: str, version: str, *, requires: tuple[str, ...] = ()) -> Path:
    """Return a folder that holds a project of that name."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = {list(requires)!r}\n'
    )
    (folder / "own.py").write_text(_BACKEND.format(name=name, version=version, requires=list(requires)))
    (folder / "PKG-INFO").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {line}\n" for line in requires)
    )
    return folder


def make_sdist(folder: Path, name: str, version: str, *, requires: tuple[str, ...] = ()) -> Path:
    """Return a source distribution in a folder; the same call gives the same bytes."""
    source = make_source(folder / f".{name}-{version}", name, version, requires=requires)
    target = folder / f"{name}-{version}.tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(source.iterdir()):
            content = path.read_bytes()
            member = tarfile.TarInfo(f"{name}-{version}/{path.name}")
            member.size, member.mtime = len(content), 1_577_836_800
            tar.addfile(member, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return target


def make_repository(folder: Path, name: str, version: str, *, requires: tuple[str, ...] = ()) -> str:
    """Make a git repository of a project and return its commit."""
    make_source(folder, name, version, requires=requires)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
