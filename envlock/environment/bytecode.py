"""Byte code as part of the environment: compiled once per wheel and interpreter, linked into every environment.

A `.pyc` normally carries the absolute path it was compiled under. Compiled under a relative path (as `compileall -s`
does) and `unchecked-hash` (PEP 552), it is the same bytes wherever it lies; the import system puts the true path back
when it loads it. The cache can be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from envlock import system
from envlock.errors import RealiseError

# Runs in the environment's own interpreter, isolated: byte code belongs to exactly that version.
_COMPILE = """
import json, os, py_compile, sys
from concurrent.futures import ProcessPoolExecutor
def one(job):
    source, target, shown = job
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        py_compile.compile(source, target, shown, doraise=True, quiet=2,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except Exception:
        return 0   # templates and files for other Pythons do not compile; importing them says so itself
    return 1
if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    workers = min(os.cpu_count() or 1, max(1, len(jobs) // 50))
    if workers == 1:
        print(sum(map(one, jobs)))
    else:
        with ProcessPoolExecutor(workers) as pool:
            print(sum(pool.map(one, jobs, chunksize=64)))
"""


def cache_key(python: str) -> str:
    """Return the folder name for an interpreter version: byte code is stable within one minor version."""
    major, minor = python.split(".")[:2]
    return f"cpython-{major}{minor}"


def compiled_name(source: str, tag: str) -> str:
    """Return where PEP 3147 puts the byte code of a source file."""
    folder, _, name = source.rpartition("/")
    return f"{folder}/__pycache__/{name[:-3]}.{tag}.pyc".lstrip("/")


def install(
    prefix: Path,
    site: Path,
    sources: Mapping[str, Sequence[str]],
    *,
    python: str,
    cache: Path,
    environ: Mapping[str, str],
    on_step: Callable[[str], None] = lambda _: None,
) -> int:
    """Give every source its byte code and return how many files were linked.

    `sources` maps a wheel's sha256 to its `.py` files relative to `site`. What the cache lacks is compiled first.
    """
    root = cache / "bytecode" / cache_key(python)
    tag = cache_key(python)
    missing = {digest: files for digest, files in sources.items() if not (root / digest[:2] / digest).is_dir()}
    if missing:
        on_step(f"compiling {sum(map(len, missing.values()))} files (once; kept for every environment)")
        _compile(prefix, site, missing, root=root, tag=tag, environ=environ)
    linked = 0
    for digest in sources:
        linked += _link_tree(root / digest[:2] / digest, site)
    return linked


def _compile(
    prefix: Path, site: Path, missing: Mapping[str, Sequence[str]], *, root: Path, tag: str, environ: Mapping[str, str]
) -> None:
    staging = root / f".compiling-{os.getpid()}"
    jobs = [
        (str(site / source), str(staging / digest / compiled_name(source, tag)), source)
        for digest, files in missing.items()
        for source in files
    ]
    for digest in missing:
        (staging / digest).mkdir(parents=True, exist_ok=True)
    try:
        script = staging / "compile.py"
        script.write_text(_COMPILE)
        done = system.run(
            [prefix / "bin" / "python", "-I", "-S", script],
            input_text=json.dumps(jobs),
            env={name: environ[name] for name in ("PATH", "TMPDIR", "HOME") if name in environ},
        )
        if done.returncode != 0:
            raise RealiseError(
                "byte code could not be compiled", where=str(prefix), details=done.stderr.splitlines()[-8:]
            )
        for digest in missing:
            target = root / digest[:2] / digest
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(staging / digest, target)
            except OSError:
                if not target.is_dir():  # another sync put the same bytes there meanwhile
                    raise
    finally:
        system.remove_tree(staging)


def _link_tree(source: Path, site: Path) -> int:
    """Hard-link a wheel's byte code into site-packages (copy where links cannot be made); return the count."""
    count = 0
    stack = [("", os.fspath(source))]
    target_root = os.fspath(site)
    while stack:
        folder, path = stack.pop()
        files = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append((f"{folder}/{entry.name}", entry.path))
                else:
                    files.append((entry.name, entry.path))
        if not files:
            continue
        target = f"{target_root}{folder}"
        os.makedirs(target, exist_ok=True)
        for name, file in files:
            _link(file, f"{target}/{name}")
        count += len(files)
    return count


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        os.unlink(target)
        os.link(source, target)
    except OSError:
        Path(target).write_bytes(Path(source).read_bytes())
