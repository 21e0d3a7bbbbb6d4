"""Reading ELF files: sections, what they need, and the symbols they export and miss. Pure, over any buffer.

Written for files that may be truncated, damaged or made to harm: every offset is held against the buffer before it is
used, and whatever does not fit raises MalformedElf. Only what the checks ask for is read: pyelftools builds an object
per structure and took minutes over the gigabytes of one environment, where this takes a second.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from mmap import mmap
from typing import NamedTuple

Buffer = mmap | bytes

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_NEED = struct.Struct("<HHIII")
_NEED_AUX = struct.Struct("<IHHII")

MAGIC = b"\x7fELF"
EM_CUDA = 190
HEAD = 4096
"""Bytes of a file that hold its header and, in anything a linker wrote, its program headers."""
_MACHINES = {3: "i686", 21: "ppc64le", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_ET_DYN, _PT_INTERP = 3, 3
_PROGRAM_HEADER = 56
_SHT_STRTAB, _SHT_DYNAMIC, _SHT_NOBITS, _SHT_DYNSYM, _SHT_GNU_HASH, _SHT_VERNEED = 3, 6, 8, 11, 0x6FFFFFF6, 0x6FFFFFFE
_STB_WEAK = 2
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29
_MAX_SECTIONS = 1 << 20  # object files with a section per function reach six digits; more is no ELF file we know


class MalformedElf(Exception):
    """The bytes are no ELF file that can be read; the message says which part does not fit."""


class Section(NamedTuple):
    """One section; `offset` counts from the start of the ELF file."""

    type: int
    offset: int
    size: int
    link: int


class Elf(NamedTuple):
    """One ELF file inside a buffer. Section contents are held against its end when they are asked for."""

    data: Buffer
    start: int
    stop: int
    raw: list[tuple[int, ...]]
    """The section headers as they stand."""
    names: bytes
    """The string table of section names."""

    def named(self, *names: bytes) -> Iterator[Section]:
        """Yield the sections with one of these names, in file order."""
        if any(name in self.names for name in names):
            for row in self.raw:
                end = self.names.find(b"\0", row[0])
                if end >= 0 and self.names[row[0] : end] in names:
                    yield Section(row[1], row[4], row[5], row[6])

    def typed(self, kind: int) -> Section | None:
        """Return the first section of a type, or None."""
        return next((Section(row[1], row[4], row[5], row[6]) for row in self.raw if row[1] == kind), None)

    def extent(self, section: Section) -> tuple[int, int]:
        """Return where a section's bytes begin and end. Raises MalformedElf when they are not all there."""
        if section.type == _SHT_NOBITS:
            return self.start, self.start
        _inside(self.start, self.stop, section.offset, section.size, "a section")
        return self.start + section.offset, self.start + section.offset + section.size


class Head(NamedTuple):
    """What the first bytes of an ELF file tell."""

    machine: str
    """The CPU it is for, as `uname -m` calls it; a number where it has no name here."""
    library: bool
    """The loader takes it as a library: position-independent, and it names no loader of its own as programs do."""


class Dynamic(NamedTuple):
    """What the loader is told."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: str = ""
    runpath: str = ""


def read_head(head: bytes) -> Head | None:
    """Return what the first HEAD bytes of a file tell, or None when it is no little-endian 64-bit ELF file."""
    if len(head) < _HEADER.size or head[:4] != MAGIC or head[4] != 2 or head[5] != 1:
        return None
    _, kind, machine, _, _, table, _, _, _, _, count, *_ = _HEADER.unpack_from(head)
    types = (head[at : at + 4] for at in range(table, min(table + count * _PROGRAM_HEADER, len(head)), _PROGRAM_HEADER))
    program = any(int.from_bytes(word, "little") == _PT_INTERP for word in types)
    return Head(_MACHINES.get(machine, f"machine {machine}"), kind == _ET_DYN and not program)


def read_elf(data: Buffer, start: int = 0, end: int | None = None) -> Elf:
    """Return the ELF file at `start`. Raises MalformedElf for anything but a whole little-endian 64-bit one."""
    stop = len(data) if end is None else end
    if stop - start < _HEADER.size or data[start : start + 4] != MAGIC:
        raise MalformedElf("no ELF header")
    ident, _, _, _, _, _, table, _, _, _, _, entry_size, count, names = _HEADER.unpack_from(data, start)
    if ident[4] != 2 or ident[5] != 1:
        raise MalformedElf("not a little-endian 64-bit ELF file")
    if not table:
        return Elf(data, start, stop, [], b"")
    if entry_size != _SECTION.size:
        raise MalformedElf(f"section headers of {entry_size} bytes")
    _inside(start, stop, table, _SECTION.size, "the section table")
    if not count or names == 0xFFFF:  # more than 65,279 sections: the first header holds the true numbers
        first = _SECTION.unpack_from(data, start + table)
        count, names = count or first[5], first[6] if names == 0xFFFF else names
    if count > _MAX_SECTIONS:
        raise MalformedElf(f"{count} sections")
    _inside(start, stop, table, count * _SECTION.size, "the section table")
    raw = list(_SECTION.iter_unpack(data[start + table : start + table + count * _SECTION.size]))
    if names >= len(raw):
        raise MalformedElf("the section of section names is not there")
    _inside(start, stop, raw[names][4], raw[names][5], "the section names")
    first_name = start + raw[names][4]
    return Elf(data, start, stop, raw, data[first_name : first_name + raw[names][5]])


def _inside(start: int, stop: int, offset: int, size: int, what: str) -> None:
    if offset + size > stop - start:
        raise MalformedElf(f"{what} reaches past the end of the file")


def _text(table: bytes, offset: int) -> bytes:
    end = table.find(b"\0", offset)
    if end < 0:
        raise MalformedElf("a name outside its string table")
    return table[offset:end]


def contents(elf: Elf, section: Section) -> bytes:
    """Return a section's bytes. Raises MalformedElf."""
    first, last = elf.extent(section)
    return elf.data[first:last]


def _strings(elf: Elf, section: Section) -> bytes:
    if section.link >= len(elf.raw) or elf.raw[section.link][1] != _SHT_STRTAB:
        raise MalformedElf("a section without its string table")
    row = elf.raw[section.link]
    return contents(elf, Section(row[1], row[4], row[5], row[6]))


def read_dynamic(elf: Elf) -> Dynamic:
    """Return what the file asks of the loader. Raises MalformedElf."""
    section = elf.typed(_SHT_DYNAMIC)
    if section is None:
        return Dynamic()
    names = _strings(elf, section)
    needed: list[str] = []
    one: dict[int, str] = {}
    body = contents(elf, section)
    for tag, value in _DYNAMIC.iter_unpack(body[: len(body) // _DYNAMIC.size * _DYNAMIC.size]):
        if tag == 0:
            break
        if tag == _DT_NEEDED:
            needed.append(_text(names, value).decode("utf-8", "replace"))
        elif tag in (_DT_SONAME, _DT_RPATH, _DT_RUNPATH):
            one[tag] = _text(names, value).decode("utf-8", "replace")
    return Dynamic(tuple(needed), one.get(_DT_SONAME, ""), one.get(_DT_RPATH, ""), one.get(_DT_RUNPATH, ""))


def read_undefined(elf: Elf, containing: tuple[bytes, ...] = ()) -> frozenset[bytes]:
    """Return the dynamic symbols the file needs of others; weak ones are left out, they may stay undefined.

    With `containing`, nothing is read unless one of these occurs in a name. Raises MalformedElf.
    """
    section = elf.typed(_SHT_DYNSYM)
    if section is None:
        return frozenset()
    names = _strings(elf, section)
    if containing and not any(part in names for part in containing):
        return frozenset()
    body = contents(elf, section)
    rows = _SYMBOL.iter_unpack(body[: len(body) // _SYMBOL.size * _SYMBOL.size])
    return frozenset(_text(names, row[0]) for row in rows if row[0] and not row[3] and row[1] >> 4 != _STB_WEAK)


def read_defined(elf: Elf, wanted: Iterable[bytes]) -> frozenset[bytes]:
    """Return which of the wanted names the file exports, looked up through its hash table as the loader would.

    A file without a GNU hash table exports nothing here. Raises MalformedElf.
    """
    symbols, table = elf.typed(_SHT_DYNSYM), elf.typed(_SHT_GNU_HASH)
    if symbols is None or table is None:
        return frozenset()
    names, rows, body = _strings(elf, symbols), contents(elf, symbols), contents(elf, table)
    if len(body) < 16:
        raise MalformedElf("a hash table without a header")
    buckets, first, bloom, _ = struct.unpack_from("<IIII", body)
    at = 16 + 8 * bloom
    words = memoryview(body[at : at + (len(body) - at) // 4 * 4]).cast("I")
    if not buckets or len(words) < buckets:
        raise MalformedElf("a hash table without its buckets")
    return frozenset(name for name in wanted if _exports(name, words, buckets, first, rows, names))


def _exports(name: bytes, words: Sequence[int], buckets: int, first: int, rows: bytes, names: bytes) -> bool:
    hashed = 5381
    for byte in name:
        hashed = (hashed * 33 + byte) & 0xFFFFFFFF
    index = words[hashed % buckets]
    if index < first:
        return False
    while (at := buckets + index - first) < len(words) and (index + 1) * _SYMBOL.size <= len(rows):
        link = words[at]
        if link | 1 == hashed | 1:
            offset, _, _, section, _, _ = _SYMBOL.unpack_from(rows, index * _SYMBOL.size)
            if section and names.startswith(name + b"\0", offset):
                return True
        if link & 1:
            return False
        index += 1
    return False


def read_version_needs(elf: Elf) -> frozenset[str]:
    """Return the symbol versions the file needs of others (`GLIBC_2.34`, `GLIBCXX_3.4.29`). Raises MalformedElf."""
    section = elf.typed(_SHT_VERNEED)
    if section is None:
        return frozenset()
    names = _strings(elf, section)
    body = contents(elf, section)
    return frozenset(_text(names, name).decode("latin-1") for name in _need_names(body))


def _need_names(body: bytes) -> Iterator[int]:
    """Yield name offsets of a version-need chain; both chains only move forward, so a loop of offsets ends."""
    at = 0
    while at + _NEED.size <= len(body):
        _, count, _, aux, following = _NEED.unpack_from(body, at)
        inner = at + aux
        for _ in range(count):
            if inner + _NEED_AUX.size > len(body):
                raise MalformedElf("a version need outside its section")
            *_head, name, step = _NEED_AUX.unpack_from(body, inner)
            yield name
            if not step:
                break
            inner += step
        if not following:
            return
        at += following
