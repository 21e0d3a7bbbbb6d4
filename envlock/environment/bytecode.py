"""Byte code as part of the environment: compiled once per wheel and interpreter, linked into every environment.

A `.pyc` normally carries the absolute path it was compiled under. Compiled under a relative path (as `compileall -s`
does) and `unchecked-hash` (PEP 552), it is the same bytes wherever it lies; the import system puts the true path back
when it loads it. The cache can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from envlock import disk, system
from envlock.environment import link_program
from envlock.environment.digests import sha256_of
from envlock.environment.distributions import Distribution
from envlock.environment.inventory import Entry, dump
from envlock.environment.records import Recorded
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
    workers = min(len(os.sched_getaffinity(0)), max(1, len(jobs) // 50))
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


_FORMAT = 4  # with a list of what was compiled
_TRIES = 3
_PROCESSES = 8  # link; beyond it they wait for each other in the kernel


def drop_former(cache: Path) -> None:
    """Remove byte code that an earlier envlock kept in another form: no sync will look for it."""
    for folder in (cache / "bytecode").glob("*"):
        if not folder.name.endswith(f"-{_FORMAT}"):
            disk.remove_tree(folder)


class Source(NamedTuple):
    """The Python files of one installed distribution, and the hash that their byte code is kept under."""

    digest: str
    distribution: Distribution
    lost: frozenset[str]
    """Of its files those that another package's lie over."""

    @classmethod
    def of(cls, distribution: Distribution, wheel: str | None, lost: Iterable[str]) -> Source:
        """Return a distribution's source.

        A wheel's hash names its byte code only where every file is the wheel's own. What was built here, which one
        source can be in two ways, and what another package lies over, is named by the files that are there.
        """
        gone = frozenset(path for path in lost if path.endswith(".py"))
        if wheel is not None and not gone:
            return cls(wheel, distribution, gone)
        held = repr(sorted((one.path, one.sha256) for one in _python_files(distribution, gone)))
        return cls(hashlib.sha256(held.encode("utf-8", "surrogateescape")).hexdigest(), distribution, gone)

    def files(self) -> list[str]:
        """Return the files below site-packages that are this source's own."""
        return [one.path for one in _python_files(self.distribution, self.lost)]


def _python_files(distribution: Distribution, lost: Container[str]) -> list[Recorded]:
    return [
        one
        for one in distribution.records
        if one.path.endswith(".py") and not one.path.startswith("..") and one.path not in lost
    ]


class ByteCode:
    """The byte code of one environment's wheels: what the cache has is linked at once, what it lacks is compiled."""

    def __init__(self, prefix: Path, site: Path, *, python: str, cache: Path, environ: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._site = site
        self._tag = cache_key(python)
        self._root = cache / "bytecode" / f"{self._tag}-{_FORMAT}"
        self._environ = environ

    def link_cached(self, digests: Iterable[str]) -> set[str]:
        """Link the byte code that the cache has of these into site-packages; return those it has edited files of.

        It is the cache's own file by a hard link, so an edit in any environment reaches the cache, and from there the
        next environment. Where two have one file, either may win: give the winner in a later call.
        """
        folders = [folder for digest in dict.fromkeys(digests) if _is_kept(folder := self._folder(digest))]
        if not folders:
            return set()
        number = min(_PROCESSES, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(number) as pool:
            shares = [pool.submit(self._link, folders, share, number) for share in range(number)]
            return {os.path.basename(folder) for share in shares for folder in share.result()}

    def _link(self, folders: list[Path], share: int, shares: int) -> list[str]:
        program = Path(link_program.__file__)
        site = os.path.relpath(self._site, self._prefix)
        done = system.run(
            [sys.executable, "-I", "-S", program, self._prefix, site, str(share), str(shares)],
            input_text="".join(f"{folder}\n" for folder in folders),
            env={},
            errors="surrogateescape",
        )
        if done.returncode != 0:
            details = done.stderr.splitlines()[-8:]
            raise RealiseError("byte code could not be linked", where=str(self._site), details=details)
        return done.stdout.split("\n")[:-1]

    def compile_missing(self, sources: Iterable[Source], say: Callable[[str], None]) -> None:
        """Compile and link what the cache lacks.

        Call it only when the sources have been checked against their wheels: the cache is keyed by the wheel.
        """
        files = {one.digest: one.files for one in sources}
        site = os.path.relpath(self._site, self._prefix)
        lacking = {digest for digest in files if not _is_kept(self._folder(digest))}
        for _ in range(_TRIES):
            if not lacking:
                return
            missing = {digest: files[digest]() for digest in lacking if not _is_kept(self._folder(digest))}
            number = sum(map(len, missing.values()))
            if number:
                say(f"compiling {number} files (once; kept for every environment)")
            if missing:
                _compile(self._prefix, site, missing, root=self._root, tag=self._tag, environ=self._environ)
            lacking = self.link_cached(lacking)  # another sync may drop what it finds edited, while we link it
        raise RealiseError("byte code vanishes from the cache as fast as it is compiled", where=str(self._root))

    def listed(self, source: Source) -> str:
        """Return the byte code of a source in lines as an inventory has them: what was compiled and is linked.

        Raises RealiseError when the cache was deleted meanwhile.
        """
        file = _list_of(self._folder(source.digest))
        try:
            return file.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise RealiseError(
                "byte code vanished from the cache during the sync",
                where=str(file),
                found=str(error),
                hint="sync again; the environment before this one is untouched",
            ) from error

    def forget(self, sources: Iterable[Source]) -> None:
        """Drop what the cache has of these."""
        for one in sources:
            disk.remove_tree(self._folder(one.digest))

    def _folder(self, digest: str) -> Path:
        return self._root / digest[:2] / digest


def _compile(
    prefix: Path, site: str, missing: Mapping[str, Sequence[str]], *, root: Path, tag: str, environ: Mapping[str, str]
) -> None:
    # profiles are synced side by side by the threads of one process
    staging = root / f".compiling-{os.getpid()}-{threading.get_ident()}"
    jobs = [
        (f"{prefix}/{site}/{source}", str(staging / digest / compiled_name(source, tag)), source)
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
            _keep(root / digest[:2] / digest, staging / digest, _listed(staging / digest, site))
    finally:
        disk.remove_tree(staging)


def _keep(target: Path, made: Path, listed: str) -> None:
    """Put a folder and its list into the cache, unless another sync did so meanwhile and may be linking from it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with disk.locked(target.parent / ".placing"):
        if not _is_kept(target):
            disk.remove_tree(target)  # without its list it is of no use
            disk.write_atomically(_list_of(target), listed)
            os.rename(made, target)


def _is_kept(folder: Path) -> bool:
    return folder.is_dir() and _list_of(folder).is_file()


def _list_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.list")


def _listed(folder: Path, site: str) -> str:
    """Return what was compiled as an inventory lists it where it will be linked."""
    entries = []
    for path in sorted(folder.rglob("*.pyc")):
        status = path.lstat()
        where = f"{site}/{path.relative_to(folder)}"
        entries.append(Entry(where, sha256_of(path), status.st_size, status.st_mtime_ns, ""))
    return dump(entries)
