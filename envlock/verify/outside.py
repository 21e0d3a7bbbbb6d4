"""What the static tier looks at and no stamp tells: the host's compiler, headers and glibc, the user's packages, modes.

Standard library only, and of that only what starts fast: a remembered verdict (launch/verdict.py) asks the same.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_STACK = ("torch", "nvidia", "triton", "sgl_kernel", "flashinfer", "flash_attn", "vllm")
_COMPILERS = ("gcc", "cc", "clang")  # in the order Triton looks; CC goes before


def user_packages(minor: str) -> tuple[str, ...]:
    """Return the packages of a GPU stack in the user's own site-packages of this Python (`3.11`), by path."""
    folder = os.path.join(os.path.expanduser("~"), ".local", "lib", f"python{minor}", "site-packages")
    return tuple(f"{folder}/{name}" for name in _STACK if os.path.isdir(f"{folder}/{name}"))


def headers(base: str, minor: str) -> bool:
    """Tell whether Python.h of a base interpreter is where Triton's compiler looks for it."""
    root = os.path.dirname(os.path.dirname(base)) if base else "/usr"
    return any(os.path.isfile(f"{item}/include/python{minor}/Python.h") for item in {root, "/usr"})


def compiler(variables: Mapping[str, str]) -> str:
    """Return the C compiler that Triton would call, by path; empty for none."""
    names = (variables.get("CC", "").split(" ", 1)[0], *_COMPILERS)
    return next((found for name in names if name and (found := _which(name, variables))), "")


def _which(name: str, variables: Mapping[str, str]) -> str:
    """Return what `shutil.which` does, whose import takes as long as all of the rest here."""
    folders = [""] if "/" in name else variables.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def glibc() -> str:
    """Return this machine's glibc, `2.36`; empty when it has another C library."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):
        return ""


def modes(prefix: str, minor: str) -> list[int]:
    """Return the modes of the folders, of the programs and of what lies in site-packages of this Python (`3.11`).

    While they are the same, `permissions.vital` finds the same of them. Raises OSError.
    """
    site = f"{prefix}/lib/python{minor}/site-packages"
    found = [os.stat(path).st_mode for path in (prefix, f"{prefix}/lib", os.path.dirname(site))]
    for folder in (f"{prefix}/bin", site):
        found.append(os.stat(folder).st_mode)
        for name in sorted(os.listdir(folder)):
            path = f"{folder}/{name}"
            link = name.startswith("python") and os.path.exists(path)  # to what is started
            found.append(os.stat(path).st_mode if link else os.lstat(path).st_mode)
    return found
