"""Byte code as part of the environment: compiled once per wheel and interpreter, linked into every environment.

A `.pyc` normally carries the absolute path it was compiled under. Compiled under a relative path (as `compileall -s`
does) and `unchecked-hash` (PEP 552), it is the same bytes wherever it lies; the import system puts the true path back
when it loads it. The cache can be deleted at any time.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from envlock import disk, system
from envlock.environment.digests import sha256_of
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


class ByteCode:
    """The byte code of one environment's wheels: what the cache has is linked at once, what it lacks is compiled."""

    def __init__(self, prefix: Path, site: Path, *, python: str, cache: Path, environ: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._site = site
        self._tag = cache_key(python)
        self._root = cache / "bytecode" / f"{self._tag}-3"  # 3: with the digests of what was compiled
        self._environ = environ

    def link_cached(self, wheels: Iterable[str]) -> None:
        """Link the byte code of every wheel (by sha256) that the cache has into site-packages."""
        found = [folder for digest in wheels if (folder := self._folder(digest)).is_dir()]
        if not found:
            return
        # coreutils' cp links 23,000 files in a third of the time Python takes, and beside whatever Python does now
        sources = [f"{folder}/." for folder in found]
        for how in (["--link"], ["--preserve=timestamps"]):
            argv: list[str | os.PathLike[str]] = [
                "cp",
                "--recursive",
                "--force",
                *how,
                "--target-directory",
                self._site,
                *sources,
            ]
            done = system.run(argv, env=_c_locale(self._environ))
            if done.returncode == 0:
                return
        raise RealiseError("byte code could not be linked", where=str(self._site), details=done.stderr.splitlines()[:8])

    def compile_missing(self, sources: Mapping[str, Sequence[str]], say: Callable[[str], None]) -> bool:
        """Compile and link what the cache lacks, and return whether anything was.

        `sources` maps a wheel's sha256 to its `.py` files below `site`.

        Call it only when the sources have been checked against their wheels: the cache is keyed by the wheel.
        """
        missing = {digest: files for digest, files in sources.items() if not self._folder(digest).is_dir()}
        if missing:
            say(f"compiling {sum(map(len, missing.values()))} files (once; kept for every environment)")
            _compile(self._prefix, self._site, missing, root=self._root, tag=self._tag, environ=self._environ)
            self.link_cached(missing)
        return bool(missing)

    def edited(self, sources: Mapping[str, Sequence[str]], there: Mapping[str, str]) -> dict[str, Sequence[str]]:
        """Return those of `sources` whose linked byte code is not what was compiled from them.

        `there` maps byte code below site-packages to its sha256. It is the cache's own file by a hard link, so an edit
        in any environment reaches the cache, and from there the next environment.
        """
        found: dict[str, Sequence[str]] = {}
        for digest, files in sources.items():
            made = _read_sums(self._sums(digest))
            names = (compiled_name(file, self._tag) for file in files)
            if any(there.get(name) != made.get(name) for name in names):
                found[digest] = files
        return found

    def forget(self, digests: Iterable[str]) -> None:
        """Drop what the cache has of these."""
        for digest in digests:
            disk.remove_tree(self._folder(digest))

    def _sums(self, digest: str) -> Path:
        return self._root / digest[:2] / f"{digest}.sums"

    def _folder(self, digest: str) -> Path:
        return self._root / digest[:2] / digest


def _c_locale(environ: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _compile(
    prefix: Path, site: Path, missing: Mapping[str, Sequence[str]], *, root: Path, tag: str, environ: Mapping[str, str]
) -> None:
    # profiles are synced side by side by the threads of one process
    staging = root / f".compiling-{os.getpid()}-{threading.get_ident()}"
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
            disk.write_atomically(target.with_name(f"{digest}.sums"), _sums_of(staging / digest))
            try:
                os.rename(staging / digest, target)
            except OSError:
                if not target.is_dir():  # another sync put the same bytes there meanwhile
                    raise
    finally:
        disk.remove_tree(staging)


def _sums_of(folder: Path) -> str:
    """Return `sha256 path` lines of what was compiled."""
    paths = sorted(path for path in folder.rglob("*.pyc"))
    return "".join(f"{sha256_of(path)} {path.relative_to(folder)}\n" for path in paths)


def _read_sums(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return {}
    return {path: digest for digest, _, path in (line.partition(" ") for line in lines)}
