"""Coverage-guided fuzzing of the readers of device code, ELF files and cubins (needs `atheris`).

    python benchmarks/fuzz_device_code.py -max_total_time=600 CORPUS_FOLDER

An input may be anything; the readers must return, or raise their own error, and soon. Inputs that hold no container
magic must never be found to hold machine code.
"""

import struct
import sys

import atheris

with atheris.instrument_imports():
    from envlock.verify import elf, fatbin
    from envlock.verify.coverage import count
    from envlock.verify.libraries import read_buffer

MAGIC = struct.pack("<I", fatbin.MAGIC)


def one(data: bytes) -> None:
    code = fatbin.read_library(data)
    covered = count(code, "12.0")
    if (covered.sass or covered.ptx) and MAGIC not in data and b"\xbe\x00" not in data:
        raise AssertionError("code where there is none")
    for container, _ in code.containers:
        for target in container:
            assert fatbin.parse_target(str(target)) == target
    read_buffer(data, shared=True)
    elf.read_head(data[: elf.HEAD])
    try:
        whole = elf.read_elf(data)
        elf.read_defined(whole, [b"_ZN3c105ErrorC2E", b"a"])
    except elf.MalformedElf:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
