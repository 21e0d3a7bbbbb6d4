"""The tables of a profile, each taken apart by a function of its own. Pure; faults are remembered by the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock.declare.fields import Table
from envlock.declare.profile import (
    PYPI,
    Build,
    Environ,
    Gpu,
    Index,
    Kernels,
    Links,
    Lint,
    Platform,
    Torch,
)
from envlock.layout import is_profile_name

LINKS: tuple[Links, ...] = ("auto", "reflink", "hardlink", "copy")
MACHINES: tuple[Literal["x86_64", "aarch64"], ...] = ("x86_64", "aarch64")
LINTS: tuple[Lint, ...] = ("off", "warn", "error")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

_CUDA = re.compile(r"[0-9]{1,2}\.[0-9]")
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")
_DRIVER = re.compile(r"[0-9]{3}(?:\.[0-9]{1,3}){1,2}")
_GLIBC = re.compile(r"2\.[0-9]{1,2}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GLOB = re.compile(r"[A-Za-z_*][A-Za-z0-9_*?]*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# What a profile may not let through: each of these has put a foreign library or interpreter into a sealed environment.
NEVER_PASSED = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT",
    "VIRTUAL_ENV", "CONDA_PREFIX",
)  # fmt: skip


def requirements(top: Table, key: str, *, plain: bool = False) -> tuple[str, ...]:
    """Return a list of PEP 508 requirements; direct references must be pinned to bytes."""
    good = []
    for line in top.strings(key):
        try:
            wanted = Requirement(line)
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            top.fault(key, f"{line!r} is no requirement (PEP 508): {reason}", found=line)
            continue
        if wanted.url is not None:
            if plain:
                top.fault(key, f"{line!r}: a constraint cannot be a URL", found=line)
            else:
                _direct(top, key, line, wanted.url)
        good.append(line)
    return tuple(good)


def url_fault(url: str) -> str | None:
    """Return what is wrong with a URL of an index or a file, or None (RFC 3986: scheme, host, port)."""
    if any(not letter.isprintable() or letter.isspace() for letter in url):
        return "has white space in it"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"is no URL: {error}"
    if parts.scheme not in ("https", "http", "file"):
        return "must begin with https://, http:// or file://"
    if parts.scheme != "file" and (not host or port == 0):
        return "names no host, https://HOST/..."
    return None


def _direct(top: Table, key: str, line: str, url: str) -> None:
    """Judge a direct reference: it must be pinned to bytes, by a hash for a file, a full commit for git."""
    if url.startswith("git+"):
        revision = url.partition("#")[0].rpartition("@")[2]
        if not _COMMIT.fullmatch(revision):
            top.fault(key, f"{line!r}: pin git to a full commit, ...@<40 hexadecimal digits>", found=revision)
    elif not re.search(r"#(?:.*&)?sha256=[0-9a-f]{64}", url):
        top.fault(key, f"{line!r}: pin the file, ...#sha256=<64 hexadecimal digits>", found=line)
    else:
        wrong = url_fault(url)
        if wrong is not None:
            top.fault(key, f"{line!r}: the URL {wrong}", found=line)
    if re.match(r"[a-z+]+://[^/@]*:[^/@]*@", url):
        top.fault(key, f"{line!r}: credentials do not belong in a profile; use your .netrc", found="credentials")


def names(top: Table, key: str) -> tuple[str, ...]:
    """Return a list of normalised package names."""
    return tuple(str(canonicalize_name(name)) for name in top.strings(key, _NAME, "is no name of a package"))


def prerelease(top: Table) -> Any:
    """Return what may be a pre-release: a word, or names."""
    value = top.data.get("prerelease")
    if isinstance(value, list):
        return names(top, "prerelease")
    return top.choice("prerelease", ("disallow", "allow")) or "disallow"


def torch(top: Table) -> Torch | None:
    """Return the torch build, or None."""
    table = top.table("torch")
    if table is None:
        return None
    version, cuda = table.text("version"), table.text("cuda")
    if version is not None:
        try:
            Version(version)
        except ValueError:  # InvalidVersion is one; so is a number of thousands of digits
            table.fault("version", 'must be one exact version such as "2.10.0"', found=version)
    if cuda is not None and cuda != "cpu" and not _CUDA.fullmatch(cuda):
        table.fault("cuda", 'must be a CUDA release such as "12.8", or "cpu"', found=cuda)
    torch = Torch(
        version=version or "", cuda=None if cuda in (None, "cpu") else cuda, index=table.text("index") or PYPI
    )
    table.close(("version", "cuda", "index"))
    return torch


def indexes(top: Table) -> tuple[Index, ...]:
    """Return the indexes, each with its logical name."""
    found: list[Index] = []
    for table in top.tables("index"):
        name, url = table.text("name"), table.text("url")
        if name is None or not is_profile_name(name):
            table.fault("name", "is missing: the logical name of the index, lower-case letters, digits, -", found=name)
        wrong = "is missing: where the index is, https://..." if url is None else url_fault(url)
        if wrong is not None:
            table.fault("url", wrong, found=url)
        elif re.match(r"[a-z]+://[^/]*@", url or ""):
            table.fault(
                "url",
                "credentials do not belong in a profile: map the index in your own configuration, or by "
                f"ENVLOCK_INDEX_{(name or 'NAME').upper().replace('-', '_')}_URL",
                found="credentials",
            )
        if name in [index.name for index in found]:
            table.fault("name", "two indexes of one name", found=name)
        found.append(Index(name=name or "", url=url or "", only=names(table, "only")))
        table.close(("name", "url", "only"))
    return tuple(found)


def gpu(top: Table) -> Gpu | None:
    """Return what is needed of the GPUs, or None."""
    table = top.table("gpu")
    if table is None:
        return None
    capability, driver = table.text("compute-capability"), table.text("min-driver")
    if capability is not None and not _CAPABILITY.fullmatch(capability):
        table.fault("compute-capability", 'must be major.minor such as "12.0" (SM120)', found=capability)
    if driver is not None and not _DRIVER.fullmatch(driver):
        table.fault("min-driver", 'must be a driver version such as "570.26"', found=driver)
    gpu = Gpu(
        compute_capability=capability or "",
        count=table.number("count", 1, 1024) or 1,
        min_driver=driver,
        min_free_memory=table.size("min-free-memory") or 0,
        exclusive=table.flag("exclusive"),
    )
    table.close(("compute-capability", "count", "min-driver", "min-free-memory", "exclusive"))
    return gpu


def kernels(top: Table) -> Kernels:
    """Return which libraries must have device code."""
    table = top.table("kernels")
    if table is None:
        return Kernels()
    reasons = table.table("accept-missing")
    accepted = {}
    for library in () if reasons is None else reasons.data:
        reason = reasons.text(library) if reasons is not None else None
        if reason is None or not reason.strip():
            table.fault("accept-missing", f"{library!r} needs a reason, in words", found=reason)
        else:
            accepted[library] = reason
    kernels = Kernels(
        require=table.strings("require"), accept_missing=accepted, lint=table.choice("lint", LINTS) or "warn"
    )
    table.close(("require", "accept-missing", "lint"))
    return kernels


def env(top: Table) -> Environ:
    """Return the environment variables of a launch."""
    table = top.table("env")
    if table is None:
        return Environ()
    assigned = table.table("set")
    values = {}
    for name in () if assigned is None else assigned.data:
        value = assigned.take(name, str) if assigned is not None else None
        if not _VARIABLE.fullmatch(name):
            table.fault("set", f"{name!r} cannot name a variable", found=name)
        elif value is not None:
            if "\0" in value:
                table.fault("set", f"{name}: a NUL byte cannot be in a variable", found=name)
            values[name] = value
    passed = table.strings("pass", _GLOB, "is no name of a variable, or pattern such as NCCL_*")
    for pattern in passed:
        if pattern in NEVER_PASSED or pattern == "*":
            table.fault(
                "pass", f"{pattern!r} may not cross: it puts foreign code into a sealed environment", found=pattern
            )
    table.close(("set", "pass"))
    return Environ(set=values, pass_=passed)


def platform(top: Table) -> Platform:
    """Return what a lock is made for."""
    table = top.table("platform")
    if table is None:
        return Platform()
    glibc = table.text("glibc")
    if glibc is not None and not _GLIBC.fullmatch(glibc):
        table.fault("glibc", 'must be a glibc release such as "2.35"', found=glibc)
    machine = table.choice("machine", MACHINES)
    table.close(("machine", "glibc"))
    return Platform(machine=MACHINES[0] if machine is None else machine, glibc=glibc or "2.28")


def builds(top: Table) -> Mapping[str, Build]:
    """Return how to build packages without a wheel."""
    tables = top.table("build")
    found: dict[str, Build] = {}
    for name in () if tables is None else tables.data:
        table = tables.table(name) if tables is not None else None
        if table is None:
            continue
        env = table.table("env")
        values = {} if env is None else {key: env.text(key) or "" for key in env.data}
        isolation = table.take("isolation", bool)
        found[str(canonicalize_name(name))] = Build(
            requires=requirements(table, "requires"), env=values, isolation=True if isolation is None else isolation
        )
        table.close(("requires", "env", "isolation"))
    return found


def overlaps(top: Table) -> Mapping[str, tuple[str, ...]]:
    """Return whose bytes win where two packages install one file."""
    table = top.table("overlaps")
    if table is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for winner in table.data:
        if not _NAME.fullmatch(winner):
            table.fault(winner, "is no name of a package", found=winner)
        found[str(canonicalize_name(winner))] = names(table, winner)
    return found
