"""Which Python an environment's interpreters are, told by their files. Effects: opens them; nothing is run."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from envlock.environment.digests import open_regular
from envlock.verify.elf import MalformedElf, read_dynamic, read_elf

_LIBRARY = re.compile(r"libpython([0-9]+\.[0-9]+)[a-z]*\.so")
_NAME = re.compile(r"python([0-9]+\.[0-9]+)[a-z]*")


class Interpreter(NamedTuple):
    """One name in `bin` that starts a Python."""

    path: str
    """Below the prefix, `bin/python`."""
    real: str
    """The program, with links resolved."""
    minor: str
    """The Python it is, `3.11`; empty where its file does not tell."""


def interpreters(prefix: str, minor: str, home: str) -> Iterator[Interpreter]:
    """Yield the interpreters of a prefix whose packages are for `minor`; `home` is the folder pyvenv.cfg names."""
    for name in ("python", "python3", f"python{minor}"):
        path = f"{prefix}/bin/{name}"
        if os.path.exists(path):
            real = os.path.realpath(path)
            yield Interpreter(f"bin/{name}", real, _minor(real, f"{home}/python{minor}", minor))


def _minor(real: str, base: str, minor: str) -> str:
    """Ask the library it needs, which decides; then its name; a copy (`venv --copies`) is as long as its original."""
    try:
        with open_regular(real) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            needed = read_dynamic(read_elf(data)).needed
    except (OSError, ValueError, MalformedElf):
        return ""  # a script, or damaged
    for soname in needed:
        if told := _LIBRARY.match(soname):
            return told[1]
    if told := _NAME.fullmatch(os.path.basename(real)):
        return told[1]
    try:
        return minor if os.path.getsize(real) == os.path.getsize(base) else ""
    except OSError:
        return ""
