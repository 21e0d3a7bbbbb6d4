"""ELF libraries and fat binaries made as bytes: what a compiler would write, as far as envlock reads it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

SASS, PTX, LTO = 2, 1, 8
SPECIFIC, FAMILY = 0x100000, 0x200000


def entry(
    kind: int,
    arch: int,
    *,
    suffix: str = "",
    isa: tuple[int, int] = (9, 0),
    payload: bytes = b"\0" * 16,
    header: int = 64,
) -> bytes:
    flags = {"": 0, "a": SPECIFIC, "f": FAMILY}[suffix] | 0x11
    major, minor = isa if kind == PTX else (1, 8)
    head = struct.pack("<HHIQIIHHIII", kind, 0x101, header, len(payload), 0, 0, minor, major, arch, 0, 0)
    return (head + struct.pack("<QQQ", flags, 0, 0)).ljust(header, b"\0") + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def _strings(names: Sequence[bytes]) -> tuple[bytes, dict[bytes, int]]:
    table, places = b"\0", {}
    for name in names:
        places[name] = len(table)
        table += name + b"\0"
    return table, places


def gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def library(
    *,
    fatbin: bytes = b"",
    needed: Sequence[str] = (),
    undefined: Sequence[str] = (),
    defined: Sequence[str] = (),
    versions: Sequence[str] = (),
    rpath: str = "",
    section: str = ".nv_fatbin",
    machine: int = 62,
    kind: int = 3,
) -> bytes:
    """Return a shared library with these device-code containers and these dynamic facts."""
    undefined_b, defined_b = [name.encode() for name in undefined], [name.encode() for name in defined]
    words = [*undefined_b, *defined_b, *(name.encode() for name in needed), *(name.encode() for name in versions)]
    strings, at = _strings([*words, rpath.encode(), b"libc.so.6"])
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    symbols += b"".join(struct.pack("<IBBHQQ", at[name], 0x12, 0, 0, 0, 0) for name in undefined_b)
    symbols += b"".join(struct.pack("<IBBHQQ", at[name], 0x12, 0, 7, 0x1000, 8) for name in defined_b)
    first = 1 + len(undefined_b)
    chain = [gnu_hash(name) & ~1 for name in defined_b]
    if chain:
        chain[-1] |= 1
    hashes = struct.pack("<IIIIQI", 1, first, 1, 0, (1 << 64) - 1, first if chain else 0)
    hashes += b"".join(struct.pack("<I", item) for item in chain)
    dynamic = b"".join(struct.pack("<qQ", 1, at[name.encode()]) for name in needed)
    if rpath:
        dynamic += struct.pack("<qQ", 15, at[rpath.encode()])
    dynamic += struct.pack("<qQ", 0, 0)
    needs = b""
    if versions:
        needs = struct.pack("<HHIII", 1, len(versions), at[b"libc.so.6"], 16, 0)
        for number, name in enumerate(versions):
            step = 16 if number + 1 < len(versions) else 0
            needs += struct.pack("<IHHII", 0, 0, 2, at[name.encode()], step)
    sections = [
        (".dynstr", 3, strings, 0),
        (".dynsym", 11, symbols, 1),
        (".gnu.hash", 0x6FFFFFF6, hashes, 2),
        (".dynamic", 6, dynamic, 1),
        (".gnu.version_r", 0x6FFFFFFE, needs, 1),
        (section, 1, fatbin, 0),
    ]
    return elf(sections, machine=machine, kind=kind)


def elf(
    sections: Sequence[tuple[str, int, bytes, int]], *, machine: int = 62, flags: int = 0, abi: int = 0, kind: int = 3
) -> bytes:
    names, places = _strings([name.encode() for name, *_ in sections] + [b".shstrtab"])
    body, table = b"", struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, type_, data, link in [*sections, (".shstrtab", 3, names, 0)]:
        body += b"\0" * (-len(body) % 8)
        table += struct.pack(
            "<IIQQQQIIQQ", places[name.encode()], type_, 0, 0, 64 + len(body), len(data), link, 0, 8, 0
        )
        body += data
    body += b"\0" * (-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01\0" + bytes([abi]) + b"\0" * 7
    count = len(sections) + 2
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, kind, machine, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, count, count - 1
    )
    return head + body + table


def cubin(arch: int, *, said: str = "", abi: int = 8) -> bytes:
    note = f"NVIDIA Corp\0ptxas\0-arch {said} -m 64 ".encode() if said else b"NVIDIA"
    return elf(
        [(".note.nv.tkinfo", 7, note, 0)], machine=190, flags=0x6000002 | arch << 8 if abi >= 8 else arch, abi=abi
    )


def archive(*members: bytes) -> bytes:
    out = b"!<arch>\n"
    for number, data in enumerate(members):
        out += (
            f"{f'm{number}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}".encode()
            + b"`\n"
            + data
            + b"\n" * (len(data) % 2)
        )
    return out
