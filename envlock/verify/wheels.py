"""Device code of packages that are not installed yet: wheels, and the trees that uv keeps of them unpacked.

uv names an unpacked wheel by a random id; a pointer file beside the link to it holds the wheel's sha256, so a lock's
artifact finds its own bytes or none.
"""

from __future__ import annotations

import mmap
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from envlock.errors import StoreError
from envlock.lock.document import DeviceCode, Lock, Package
from envlock.verify.coverage import Library, per_package
from envlock.verify.elf import HEAD
from envlock.verify.fatbin import DeviceCode as Code
from envlock.verify.fatbin import read_library
from envlock.verify.libraries import LibraryMemory, Read, is_library, may_hide_library, may_hold_code
from envlock.verify.tree import libraries_below, libraries_of

_CHUNK = 1 << 20
_MOST_INFLATED = 16 << 30  # bytes a wheel may unpack to; the largest known holds 4 GiB
_POINTER = 4096  # bytes of a pointer file in which the digest stands


def inspect_lock(lock: Lock, uv_cache: Path, cache: Path | None) -> dict[str, DeviceCode]:
    """Return the device code of a lock's packages as far as uv has their wheels unpacked, by exactly their sha256."""
    capability = _capability(lock)
    if capability is None:
        return {}
    memory = LibraryMemory(cache)
    found = {}
    for package in lock.packages:
        tree = unpacked(uv_cache, package)
        if tree is not None:
            code = inspect_tree(tree, package.name, (capability,), memory)
            if code is not None:
                found[package.name] = code
    memory.save()
    return found


def _capability(lock: Lock) -> str | None:
    gpu = lock.inputs.get("gpu")
    told = gpu.get("compute-capability") if isinstance(gpu, Mapping) else None
    return told if isinstance(told, str) else None


def unpacked(uv_cache: Path, package: Package) -> Path | None:
    """Return where uv keeps a locked wheel unpacked, or None when it does not (or no pointer names its sha256)."""
    if not package.artifacts or not package.artifacts[0].is_wheel:
        return None
    wanted = package.artifacts[0].sha256.encode()
    for pattern in (f"wheels-v*/pypi/{package.name}/*.http", f"wheels-v*/*/*/{package.name}/*.http"):
        for pointer in sorted(uv_cache.glob(pattern)):
            with pointer.open("rb") as file:
                if wanted in file.read(_POINTER) and pointer.with_suffix("").is_dir():
                    return pointer.with_suffix("").resolve()
    return None


def inspect_tree(root: Path, name: str, capabilities: Sequence[str], memory: LibraryMemory) -> DeviceCode | None:
    """Return the device code of a package lying unpacked below a folder; None when it holds none."""
    return _summed(libraries_below(root, name, memory), name, capabilities)


def inspect_wheel(wheel: Path, name: str, capabilities: Sequence[str]) -> DeviceCode | None:
    """Return the device code of a wheel file; None when it holds none. Raises StoreError for a file that is no wheel.

    Stored members are mapped in place, deflated ones inflated to a nameless file one at a time, never more than a
    member says of itself.
    """
    try:
        with wheel.open("rb") as file, zipfile.ZipFile(file) as archive:
            reads = dict(_members(file, archive))
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise StoreError("not a wheel that can be read", where=str(wheel), found=str(error)) from error
    return _summed(libraries_of(reads, dict.fromkeys(reads, name)), name, capabilities)


def _summed(libraries: tuple[Library, ...], name: str, capabilities: Sequence[str]) -> DeviceCode | None:
    return per_package(libraries, capabilities).get(name)


def _members(file: IO[bytes], archive: zipfile.ZipFile) -> Iterator[tuple[str, Read]]:
    left = _MOST_INFLATED
    for member in archive.infolist():
        if member.is_dir() or not (may_hold_code(member.filename) or _hides_library(archive, member)):
            continue
        if member.compress_type == zipfile.ZIP_STORED:
            code = _stored(file, member)
        elif member.file_size > left:
            code = Code((), ("larger than any wheel may unpack to",))
        else:
            left -= member.file_size
            code = _inflated(archive, member)
        yield member.filename, Read(code)


def _hides_library(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    if member.file_size < 64 or not may_hide_library(member.filename):  # 64: an ELF header
        return False
    with archive.open(member) as packed:
        return is_library(packed.read(HEAD))


def _stored(file: IO[bytes], member: zipfile.ZipInfo) -> Code:
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        head = data[member.header_offset : member.header_offset + 30]
        if len(head) < 30 or head[:4] != b"PK\3\4":
            return Code((), ("no local header",))
        start = (
            member.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        )
        if start + member.file_size > len(data):
            return Code((), ("reaches past the end of the wheel",))
        return read_library(data, start, start + member.file_size)


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Code:
    with tempfile.TemporaryFile() as whole:
        written = 0
        with archive.open(member) as packed:
            while chunk := packed.read(_CHUNK):
                written += len(chunk)
                if written > member.file_size:
                    return Code((), ("unpacks to more than it says",))
                whole.write(chunk)
        if not written:
            return Code()
        whole.flush()
        with mmap.mmap(whole.fileno(), 0, prot=mmap.PROT_READ) as data:
            return read_library(data)
