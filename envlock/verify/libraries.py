"""Opening library files: device code and loader facts of each, remembered by the file's identity.

Files are mapped, not read: of gigabytes only the pages with headers are touched. The memory is a cache; it may vanish.
"""

from __future__ import annotations

import marshal
import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from envlock import disk
from envlock.environment.digests import Identity, open_regular
from envlock.verify.elf import (
    HEAD,
    MAGIC,
    MalformedElf,
    read_defined,
    read_dynamic,
    read_elf,
    read_head,
    read_undefined,
    read_version_needs,
)
from envlock.verify.fatbin import DeviceCode as Code
from envlock.verify.fatbin import Malformed, parse_target, read_cubin, read_library

FORMAT = 3
_RELEASE = re.compile(rb"Cuda compilation tools, release ([0-9]+\.[0-9]+)")
_SHARED = re.compile(r".*\.so(\.[0-9]+)*")
# Names that extensions take from torch: C++ of c10, at, torch, caffe2 (functions, vtables, type information) and the
# stable C shims.
_TORCH = re.compile(
    rb"_Z(?:N|NK|TV|TI|TS)?(?:N|NK)?(?:3c10|2at|5torch|6caffe2)[A-Z0-9]|aoti_torch_|torch_(?:call|list|string|library)_"
)
_TORCH_PARTS = (b"3c10", b"2at", b"5torch", b"6caffe2", b"aoti_torch_", b"torch_library_")


class Read(NamedTuple):
    """What one file holds."""

    code: Code
    needed: tuple[str, ...] = ()
    search: str = ""
    glibc: str = ""
    torch_symbols: tuple[bytes, ...] = ()
    """Undefined symbols that only a torch can provide."""
    problem: str = ""
    release: str = ""
    """Of a PTX assembler: the CUDA release it is of."""
    machine: str = ""
    """Of a shared library: the CPU it is for, as `uname -m` calls it."""


def is_shared(name: str) -> bool:
    """Tell a shared library or extension module by its name."""
    return _SHARED.fullmatch(name) is not None


def may_hold_code(name: str) -> bool:
    """Tell by its name whether a file is one that device code comes in."""
    return name.endswith((".so", ".cubin", ".a", ".o", ".fatbin")) or (".so." in name and is_shared(name))


# Written for people, compilers and interpreters. A large stack has 70,000 of them, so these are not looked into.
_NO_LIBRARY = (
    *(".py", ".pyi", ".pyc", ".pyx", ".pxd", ".pth", ".typed", ".h", ".hpp", ".cuh", ".cu", ".c", ".cc", ".cpp"),
    *(".inl", ".txt", ".md", ".rst", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".csv", ".xml", ".html"),
    *(".css", ".js", ".map", ".ts", ".svg", ".png", ".cmake", ".jinja", ".j2", ".proto", ".ipynb", ".sh", ".npy"),
    *("/METADATA", "/RECORD", "/WHEEL", "/INSTALLER", "/REQUESTED"),
)


def may_hide_library(path: str) -> bool:
    """Tell by its name whether a file is worth a look: `dlopen` takes a library under any name."""
    return not path.endswith(_NO_LIBRARY)


def is_library(head: bytes) -> bool:
    """Tell a shared library of any name by its first HEAD bytes."""
    told = read_head(head)
    return told is not None and told.library


def is_assembler(name: str) -> bool:
    """Tell a PTX assembler by its name (`ptxas`, `ptxas-blackwell`)."""
    return name == "ptxas" or name.startswith("ptxas-")


class LibraryMemory:
    """What files were found to hold, by (device, inode, size, mtime)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[Identity, tuple[object, ...]] = self._load()
        self._new: dict[Identity, tuple[object, ...]] = {}

    def _load(self) -> dict[Identity, tuple[object, ...]]:
        if self._folder is None:
            return {}
        try:
            stored = marshal.loads(self._file(self._folder).read_bytes())  # noqa: S302 envlock's own, in its store
        except (OSError, ValueError, EOFError, TypeError):
            return {}
        return stored if isinstance(stored, dict) else {}

    @staticmethod
    def _file(folder: Path) -> Path:
        return folder / f"libraries-{FORMAT}"

    def read(self, path: str, identity: Identity, *, shared: bool = False) -> Read:
        """Return what a file holds, from memory when it is the same file still; `shared`: a library of any name."""
        row = self._known.get(identity)
        if row is None:
            read = read_file(path, shared=shared)
            row = self._new[identity] = self._known[identity] = _packed(read)
            return read
        return _unpacked(row)

    def save(self) -> None:
        """Write what was learnt, merged with what others saved meanwhile."""
        if not self._new or self._folder is None:
            return
        with disk.locked(self._folder / ".libraries"):
            merged = self._load()
            merged.update(self._new)
            disk.write_atomically(self._file(self._folder), marshal.dumps(merged))
        self._new = {}


def _packed(read: Read) -> tuple[object, ...]:
    code = tuple((" ".join(map(str, container)), number) for container, number in read.code.containers)
    return (code, read.code.problems, *read[1:])


def _unpacked(row: tuple[object, ...]) -> Read:
    code, problems, *rest = row
    containers = tuple((tuple(map(parse_target, text.split())), number) for text, number in code)  # type: ignore[attr-defined]
    return Read(Code(containers, problems), *rest)  # type: ignore[arg-type]


def read_file(path: str, *, shared: bool = False) -> Read:
    """Return what a file holds; one that cannot be opened, or is damaged, says so in its problems."""
    name = path.rpartition("/")[2]
    shared = shared or is_shared(name)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return Read(Code((), (f"cannot be opened: {error.strerror}",)), problem=f"cannot be opened: {error.strerror}")
    try:
        if path.endswith(".cubin"):
            return _read_cubin(handle)
        if os.fstat(handle).st_size == 0:
            return Read(Code(), problem="empty" if shared else "")
        with mmap.mmap(handle, 0, prot=mmap.PROT_READ) as data:
            if is_assembler(name):
                said = _RELEASE.search(data)
                return Read(Code(), release=said[1].decode() if said else "")
            # torch's own libraries need much of each other; only what others need of torch is of interest
            return read_buffer(data, shared=shared, torch="/torch/lib/" not in path)
    except (OSError, ValueError) as error:
        return Read(Code((), (f"cannot be read: {error}",)), problem=f"cannot be read: {error}")
    finally:
        os.close(handle)


def _read_cubin(handle: int) -> Read:
    try:
        target = read_cubin(lambda offset, size: os.pread(handle, min(size, 1 << 22), min(offset, 1 << 62)))
    except Malformed as error:
        return Read(Code((), (str(error),)))
    return Read(Code((((target,), 1),)))


def read_buffer(data: mmap.mmap | bytes, *, shared: bool, torch: bool = True) -> Read:
    """Return what the bytes of a library hold; of a shared library also what the loader needs to know."""
    code = read_library(data)
    if not shared:
        return Read(code)
    if data[:4] != MAGIC:
        return Read(code, problem="not an ELF file")
    head = read_head(data[:HEAD])
    machine = head.machine if head else "another word size"
    try:
        elf = read_elf(data)
        dynamic = read_dynamic(elf)
        versions = read_version_needs(elf)
        symbols = read_undefined(elf, _TORCH_PARTS) if torch else frozenset()
    except MalformedElf as error:
        return Read(code, problem=str(error), machine=machine)
    search = f"RUNPATH {dynamic.runpath}" if dynamic.runpath else f"RPATH {dynamic.rpath}" if dynamic.rpath else ""
    return Read(
        code,
        needed=dynamic.needed,
        search=search,
        glibc=newest(versions, "GLIBC_"),
        torch_symbols=tuple(sorted(symbol for symbol in symbols if _TORCH.match(symbol))),
        machine=machine,
    )


def newest(versions: frozenset[str], prefix: str) -> str:
    """Return the newest of versions `GLIBC_2.34` without its prefix; empty for none."""
    numbers = [version.removeprefix(prefix) for version in versions if version.startswith(prefix)]
    plain = [number for number in numbers if all(part.isdecimal() for part in number.split("."))]
    return max(plain, key=lambda number: [int(part) for part in number.split(".")], default="")


def exported(paths: Iterable[str], wanted: Iterable[bytes]) -> frozenset[bytes]:
    """Return which of the wanted symbols some of these libraries export; one that cannot be read exports none."""
    missing = frozenset(wanted)
    found: frozenset[bytes] = frozenset()
    for path in paths:
        try:
            with open_regular(path) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                found |= read_defined(read_elf(data), missing - found)
        except (OSError, ValueError, MalformedElf):
            continue
    return found
