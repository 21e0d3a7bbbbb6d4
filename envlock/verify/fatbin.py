"""Reading device code: which GPUs the containers of a fat binary hold code for. Pure, headers only, any buffer.

A container is what one translation unit brings: a 16-byte header (magic, version, header size, size of the rest), then
entries (kind, header size, payload size, architecture, flags). Payloads are hopped over, never decompressed. Offsets
were measured on the output of nvcc 12.8 to 13.5 and agree with cuobjdump; docs/device-code.md tells more.

Whatever is not understood is a `problem` of its library: such a library can be found uncovered, never covered by guess.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from envlock.verify.elf import EM_CUDA, Buffer, MalformedElf, read_elf

Kind = Literal["sass", "ptx", "lto", "unknown"]
Suffix = Literal["", "a", "f"]

MAGIC = 0xBA55ED50
_MAGIC = struct.pack("<I", MAGIC)
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHI8xQ")  # kind, version, header, payload, packed, options, minor, major, arch, flags
_KINDS: dict[int, Kind] = {1: "ptx", 2: "sass", 8: "lto"}
_FLAG_SPECIFIC, _FLAG_FAMILY = 0x100000, 0x200000
_CUBIN = struct.Struct("<18sH20xQI6xHHxx")
_NOTE = struct.Struct("<4xI16xQQ")
_ET_REL = 1
_EM_CUDA = struct.pack("<H", EM_CUDA)
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_MOST_PROBLEMS = 8
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_ARCH_OPTION = re.compile(rb"-arch[= ]sm_([0-9]+)([af]?)")


class Malformed(Exception):
    """The bytes are no device code that can be read; the message says what does not fit."""


class Target(NamedTuple):
    """What one entry was compiled for."""

    kind: Kind
    arch: int
    """90 for sm_90; for an unknown kind the number as it stands in the file."""
    suffix: Suffix = ""
    isa: tuple[int, int] | None = None
    """PTX ISA version, of PTX alone."""

    def __str__(self) -> str:
        if self.kind == "ptx" and self.isa:
            return f"compute_{self.arch}{self.suffix}@{self.isa[0]}.{self.isa[1]}"
        prefix = {"sass": "sm", "ptx": "compute", "lto": "lto", "unknown": "unknown"}[self.kind]
        return f"{prefix}_{self.arch}{self.suffix}"


_TARGET = re.compile(r"(sm|compute|lto|unknown)_([0-9]+)([af]?)(?:@([0-9]+)\.([0-9]+))?")
_PREFIXES: dict[str, Kind] = {"sm": "sass", "compute": "ptx", "lto": "lto", "unknown": "unknown"}


def parse_target(text: str) -> Target:
    """Return the target `str(target)` wrote. Raises ValueError."""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(f"no target: {text!r}")
    isa = (int(match[4]), int(match[5])) if match[4] else None
    suffix: Suffix = "a" if match[3] == "a" else "f" if match[3] == "f" else ""
    return Target(_PREFIXES[match[1]], int(match[2]), suffix, isa)


Container = tuple[Target, ...]


class DeviceCode(NamedTuple):
    """The device code of one library: how often which set of targets occurs, and what could not be read."""

    containers: tuple[tuple[Container, int], ...] = ()
    """(targets of a container, how many containers have exactly these); containers without entries are left out."""
    problems: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Number of containers."""
        return sum(number for _, number in self.containers)


def gather(containers: Iterator[Container], problems: list[str]) -> DeviceCode:
    """Return containers counted, in a fixed order."""
    counted = Counter(container for container in containers if container)
    ordered = sorted(counted.items(), key=lambda item: ([str(target) for target in item[0]], item[1]))
    return DeviceCode(tuple(ordered), tuple(problems[:_MOST_PROBLEMS]))


def read_containers(data: Buffer, start: int, end: int, problems: list[str]) -> Iterator[Container]:
    """Yield the containers between two offsets; what does not fit ends the reading and is added to `problems`.

    Every step moves forward by at least one header, so any input ends.
    """
    at = start
    while at + _CONTAINER.size <= end:
        magic, version, header, size = _CONTAINER.unpack_from(data, at)
        if magic != MAGIC:
            following = data.find(_MAGIC, at, end)
            stop = end if following < 0 else following
            if _has_content(data, at, stop):
                problems.append(f"bytes at {at - start:#x} that are no container")
                return
            at = stop
            continue
        if version != 1 or header < _CONTAINER.size or at + header + size > end:
            problems.append(f"container at {at - start:#x}: version {version}, header {header}, {size} bytes")
            return
        yield tuple(_entries(data, at + header, at + header + size, problems))
        at += header + size
    if at < end and _has_content(data, at, end):
        problems.append(f"bytes at {at - start:#x} that are no container")


def _has_content(data: Buffer, start: int, end: int) -> bool:
    return any(bytes(data[at : min(at + 65536, end)]).strip(b"\0") for at in range(start, end, 65536))


def _entries(data: Buffer, start: int, end: int, problems: list[str]) -> Iterator[Target]:
    at = start
    unpack, least = _ENTRY.unpack_from, _ENTRY.size
    while at + least <= end:
        number, _, header, size, _, _, minor, major, arch, flags = unpack(data, at)
        if header < least or at + header + size > end:
            problems.append(f"entry at {at:#x}: header {header}, {size} bytes")
            yield Target("unknown", number)
            return
        kind = _KINDS.get(number, "unknown")
        if kind == "unknown":
            problems.append(f"entry at {at:#x}: unknown kind {number:#x}")
            yield Target("unknown", number)
        elif flags & _FLAG_SPECIFIC and flags & _FLAG_FAMILY:
            problems.append(f"entry at {at:#x}: both architecture- and family-specific")
            yield Target("unknown", number)
        else:
            suffix: Suffix = "a" if flags & _FLAG_SPECIFIC else "f" if flags & _FLAG_FAMILY else ""
            yield Target(kind, arch, suffix, (major, minor) if kind == "ptx" else None)
        at += header + size
    if at < end and _has_content(data, at, end):
        problems.append(f"bytes at {at:#x} that are no entry")


def read_cubin(read: Callable[[int, int], bytes]) -> Target:
    """Return the target of a bare cubin, given a reader of (offset, size). Raises Malformed.

    The header has the number alone; the suffix stands in the note in which ptxas keeps its own command line. Three
    small reads, no more: an environment can hold fifteen thousand of these.
    """
    head = read(0, _CUBIN.size)
    if len(head) < _CUBIN.size or head[:6] != b"\x7fELF\x02\x01":
        raise Malformed("no cubin")
    _, machine, table, flags, entry_size, count = _CUBIN.unpack(head)
    if machine != EM_CUDA:
        raise Malformed("an ELF file that is no cubin")
    modern = head[8] >= 8
    arch = (flags >> 8) & 0xFF if modern else flags & 0xFF
    if not arch:
        raise Malformed("a cubin without an architecture")
    sections = read(table, count * 64) if entry_size == 64 and count < 0xFF00 else b""
    for at in range(0, len(sections) - 63, 64):
        kind, offset, size = _NOTE.unpack_from(sections, at)
        if kind == 7 and size < 65536:  # SHT_NOTE
            said = _ARCH_OPTION.search(read(offset, size))
            if said is not None and int(said[1]) == arch:
                return Target("sass", arch, "a" if said[2] == b"a" else "f" if said[2] == b"f" else "")
    return Target("sass", arch, "a" if modern and flags & 0x8 else "")


def read_library(data: Buffer, start: int = 0, end: int | None = None) -> DeviceCode:
    """Return the device code of a shared or relocatable library, a static archive, a cubin or a bare fat binary.

    A file that is none of these holds none. Raises nothing for bad bytes: they are told in `problems`.
    """
    stop = len(data) if end is None else end
    problems: list[str] = []
    return gather(_library(data, start, stop, problems), problems)


def _library(data: Buffer, start: int, stop: int, problems: list[str]) -> Iterator[Container]:
    head = bytes(data[start : min(start + 8, stop)])
    if head == b"!<arch>\n":
        for first, last in _members(data, start, stop, problems):
            if data[first : first + 4] == b"\x7fELF":
                yield from _object(data, first, last, problems)
    elif head[:4] == b"\x7fELF":
        yield from _object(data, start, stop, problems)
    elif head[:4] == _MAGIC:
        yield from read_containers(data, start, stop, problems)


def _object(data: Buffer, start: int, stop: int, problems: list[str]) -> Iterator[Container]:
    try:
        if data[start + 18 : start + 20] == _EM_CUDA:
            yield (read_cubin(lambda offset, size: bytes(data[start + offset : min(start + offset + size, stop)])),)
            return
        elf = read_elf(data, start, stop)
        # What a linked library keeps in __nv_relfatbin was input to nvlink and is never loaded (NCCL: 127 containers).
        names = _SECTIONS if data[start + 16] == _ET_REL else _SECTIONS[:1]
        extents = [elf.extent(section) for section in elf.named(*names)]
    except (MalformedElf, Malformed) as error:
        problems.append(str(error))
        return
    if sum(last - first for first, last in extents) > stop - start:
        problems.append("sections of device code that overlap")  # a small file could name one extent a million times
        return
    for first, last in extents:
        yield from read_containers(data, first, last, problems)


def _members(data: Buffer, start: int, stop: int, problems: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the extent of every member of an ar archive; 60-byte headers, members at even offsets."""
    at = start + 8
    while at + _MEMBER.size <= stop:
        *_, size_text, end_mark = _MEMBER.unpack_from(data, at)
        size = size_text.strip()
        if end_mark != b"`\n" or not size.isdigit():
            problems.append(f"archive member at {at - start:#x} has no header")
            return
        first = at + _MEMBER.size
        last = first + int(size)
        if last > stop:
            problems.append(f"archive member at {at - start:#x} reaches past the end")
            return
        yield first, last
        at = last + (last - start) % 2
