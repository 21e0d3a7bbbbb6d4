"""`verify --deep` of a sealed environment, beside hashing the same bytes with all cores and nothing else.

    python benchmarks/deep.py PREFIX

Run it twice on a machine whose memory holds the environment; else both measure the disk.
"""

import os
import sys
import time
from pathlib import Path

from envlock.environment.digests import hash_all
from envlock.environment.inventory import BYTE_CODE, drift, read_inventory


def timed(action, *arguments, **named):
    began = time.perf_counter()
    result = action(*arguments, **named)
    return result, time.perf_counter() - began


def main() -> None:
    prefix = Path(sys.argv[1])
    entries = [entry for entry in read_inventory(prefix).values() if not entry.sha256.startswith("->")]
    byte_code = read_inventory(prefix, BYTE_CODE).values()  # hashed, too
    entries = sorted([*entries, *byte_code], key=lambda entry: -entry.size)
    files = [(f"{prefix}/{entry.path}", entry.size) for entry in entries]
    size = sum(entry.size for entry in entries)
    _, hashing = timed(hash_all, files)
    found, deep = timed(drift, prefix, deep=True)
    print(f"{len(files)} files, {size / 1e9:.1f} GB, {os.cpu_count()} cores")
    print(f"hashing    {hashing:8.2f} s  {size / hashing / 1e9:.2f} GB/s")
    print(f"deep       {deep:8.2f} s  {len(found)} differences")
    print(f"ratio      {deep / hashing:8.2f}")


if __name__ == "__main__":
    main()
