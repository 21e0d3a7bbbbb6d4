"""`verify --deep` of a sealed environment, beside hashing the same bytes with all cores and nothing else.

    python benchmarks/deep.py PREFIX

Run it twice on a machine whose memory holds the environment; else both measure the disk.
"""

import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envlock.environment.inventory import drift, read_inventory


def digest(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plain(paths: list[str]) -> int:
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return sum(1 for _ in pool.map(digest, paths, chunksize=64))


def timed(action, *arguments, **named):
    began = time.perf_counter()
    result = action(*arguments, **named)
    return result, time.perf_counter() - began


def main() -> None:
    prefix = Path(sys.argv[1])
    entries = [entry for entry in read_inventory(prefix).values() if not entry.sha256.startswith("->")]
    paths = [f"{prefix}/{entry.path}" for entry in entries]
    size = sum(entry.size for entry in entries)
    _, hashing = timed(plain, paths)
    found, deep = timed(drift, prefix, deep=True)
    print(f"{len(paths)} files, {size / 1e9:.1f} GB, {os.cpu_count()} cores")
    print(f"hashing    {hashing:8.2f} s  {size / hashing / 1e9:.2f} GB/s")
    print(f"deep       {deep:8.2f} s  {len(found)} differences")
    print(f"ratio      {deep / hashing:8.2f}")


if __name__ == "__main__":
    main()
