"""Real small wheels, made in a folder: METADATA, WHEEL and RECORD are right, and the same call gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_EPOCH = (2020, 1, 1, 0, 0, 0)


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str | bytes] | None = None,
    scripts: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
    requires_python: str = ">=3.8",
    license: str = "MIT",
    unrecorded: Mapping[str, str] | None = None,
) -> Path:
    """Return a wheel; `files` are relative to site-packages, `scripts` are console entry points (`name -> mod:func`)."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    content: dict[str, bytes] = {
        f"{stem}/__init__.py": f'__version__ = "{version}"\n'.encode(),
        **{path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()},
    }
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {license}\n"
    metadata += f"Requires-Python: {requires_python}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    content[f"{info}/METADATA"] = metadata.encode()
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    if scripts:
        lines = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    content.update({path: data.encode() for path, data in (unrecorded or {}).items()})
    wheel = folder / f"{stem}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_torch(folder: Path, version: str, cuda: str | None, *, requires: Sequence[str] = ()) -> Path:
    """Return a wheel that tells its CUDA build the way torch does: in `torch/version.py`, maybe not in its version."""
    short = "cpu" if cuda is None else f"cu{cuda.replace('.', '')}"
    public = version.split("+")[0]
    told = f"__version__ = '{public}+{short}'\ncuda: str | None = {cuda!r}\n"
    return make_wheel(folder, "torch", version, requires=requires, files={"torch/version.py": told})


def make_origin_story(pytorch: Path, pypi: Path) -> None:
    """Make the wheels, with the real constraint strings, among which installing sglang silently swaps torch's CUDA.

    The edge (sgl-project/sglang#25069): sglang needs cuda-python>=13, torch's cu128 build needs cuda-bindings<13.
    """
    make_wheel(pytorch, "torch", "2.11.0+cu128", requires=["cuda-bindings<13,>=12.9.4", "nvidia-nccl-cu12==2.28.9"])
    make_wheel(pypi, "torch", "2.11.0", requires=["cuda-bindings<14,>=13.0.3", "nvidia-nccl-cu13==2.28.9"])
    for version in ("12.9.4", "13.0.3"):
        make_wheel(pypi, "cuda-bindings", version)
        make_wheel(pypi, "cuda-python", version, requires=[f"cuda-bindings~={version}"])
    for major in ("12", "13"):
        make_wheel(pypi, f"nvidia-nccl-cu{major}", "2.28.9", files={"nvidia/nccl/lib/libnccl.so.2": f"cu{major}"})
    make_wheel(pypi, "sglang", "0.5.14", requires=["torch==2.11.0", "cuda-python>=13.0"])
    make_wheel(pypi, "onlytorchpin", "1.0", requires=["torch==2.11.0"])
