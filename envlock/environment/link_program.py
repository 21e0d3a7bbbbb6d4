"""A program: link byte code from the cache into an environment, as one of several that share the work.

    python -I -S link_program.py PREFIX SITE SHARE SHARES < FOLDERS

Each line of FOLDERS is a folder of the cache; beside it lies its list (environment/bytecode.py). Of each list this
program takes its share of the lines. It prints the folders that hold other files than listed, by size and time: whoever
edits byte code in one environment edits it in the cache. A file that cannot be linked (another file system, too many
names already) is copied. Standard library only, and of that little: it starts while the disk is waited for.
"""

import os
import sys


def main(prefix: str, site: str, share: int, shares: int, folders: list[str]) -> None:
    """Link one share of each folder's list; see the module."""
    os.chdir(prefix)
    made: set[str] = set()
    for folder in folders:
        with open(f"{folder}.list", encoding="utf-8", errors="surrogateescape", newline="") as file:
            lines = file.read().split("\n")[:-1]
        lines = lines[len(lines) * share // shares : len(lines) * (share + 1) // shares]
        as_listed = [_linked(folder, line, site, made) for line in lines]  # every one, whatever the first ones say
        if not all(as_listed):
            print(folder)


def _linked(folder: str, line: str, site: str, made: set[str]) -> bool:
    """Link one file and tell whether it is as listed."""
    _, size, mtime, _, path = line.split("\t", 4)
    source = folder + path[len(site) :]
    try:
        status = os.lstat(source)
    except FileNotFoundError:
        return False
    below = os.path.dirname(path)
    if below not in made:
        os.makedirs(below, exist_ok=True)
        made.add(below)
    try:
        _link(source, path)
    except FileExistsError:
        os.unlink(path)
        _link(source, path)
    return status.st_size == int(size) and status.st_mtime_ns == int(mtime)


def _link(source: str, path: str) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError:
        import shutil

        shutil.copy2(source, path)


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        os.fsdecode(sys.stdin.buffer.read()).split("\n")[:-1],
    )
