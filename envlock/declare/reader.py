"""profiles/NAME.toml and its parents -> Profile, or every fault at once. Pure: texts in, value out.

Each file is judged by itself first, so that a fault is told where it stands; then the whole, for what only the whole
can lack or contradict.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.declare.fields import Table, line_numbers
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
    Profile,
    Torch,
)
from envlock.errors import Fault, ProfileError
from envlock.layout import is_profile_name

KEYS = (
    "description", "extends", "python", "requirements", "constraints", "overrides", "exclude", "prerelease",
    "exclude-newer", "torch", "index", "gpu", "kernels", "env", "platform", "build", "overlaps", "links", "container",
)  # fmt: skip
LINKS: tuple[Links, ...] = ("auto", "reflink", "hardlink", "copy")
MACHINES: tuple[Literal["x86_64", "aarch64"], ...] = ("x86_64", "aarch64")
LINTS: tuple[Lint, ...] = ("off", "warn", "error")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

_PYTHON = re.compile(r"3\.\d{1,2}(?:\.\d{1,2})?")
_CUDA = re.compile(r"\d{1,2}\.\d")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_DRIVER = re.compile(r"\d{3}(?:\.\d{1,3}){1,2}")
_GLIBC = re.compile(r"2\.\d{1,2}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}Z)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GLOB = re.compile(r"[A-Za-z_*][A-Za-z0-9_*?]*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_URL = re.compile(r"(?:https?|file)://\S+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# What a profile may not let through: each of these has put a foreign library or interpreter into a sealed environment.
NEVER_PASSED = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT",
    "VIRTUAL_ENV", "CONDA_PREFIX",
)  # fmt: skip


def read_profile(name: str, texts: Mapping[str, str]) -> Profile:
    """Return the profile that `texts[name]` declares, its parents (also in `texts`) applied.

    Raises ProfileError with every fault of the first file that has any: unknown keys, wrong types, impossible
    combinations, a missing parent, a cycle.
    """
    chain = _chain(name, texts)
    merged: dict[str, Any] = {}
    for one in reversed(chain):
        data = _toml(one, texts[one])
        faults: list[Fault] = []
        top = Table(data, "", faults, cache(partial(line_numbers, texts[one])))
        _read(one, top)
        top.close(KEYS)
        if faults:
            raise ProfileError(file_of(one), faults, hint=f"edit {file_of(one)}; docs/profile.md has every key")
        merged = merge(merged, data)
    merged.pop("extends", None)
    faults = []
    whole = Table(merged, "", faults, cache(partial(line_numbers, texts[name])))
    profile = _read(name, whole, extends=tuple(chain[1:]))
    _judge(whole, profile)
    if faults:
        raise ProfileError(file_of(name), faults, hint=f"edit {file_of(name)}; docs/profile.md has every key")
    return profile


def parents(text: str, name: str) -> tuple[str, ...]:
    """Return the names a profile's text extends. Raises ProfileError when it is not TOML."""
    extends = _toml(name, text).get("extends", ())
    if isinstance(extends, str):
        return (extends,)
    return tuple(item for item in extends if isinstance(item, str)) if isinstance(extends, list) else ()


def file_of(name: str) -> str:
    """Return a profile's file as messages name it."""
    return f"profiles/{name}.toml"


def _toml(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = re.search(r"at line (\d+)", str(error))
        fault = Fault("", f"not TOML: {error}", line=int(match[1]) if match else None)
        raise ProfileError(file_of(name), [fault], hint=f"edit {file_of(name)}") from error


def _chain(name: str, texts: Mapping[str, str]) -> list[str]:
    """Return the profile and its ancestors, each once, the profile first and the remotest last."""
    order: list[str] = []

    def visit(one: str, path: tuple[str, ...]) -> None:
        if one in path:
            way = " extends ".join((*path[path.index(one) :], one))
            line = line_numbers(texts[path[-1]]).get("extends")
            raise ProfileError(file_of(path[-1]), [Fault("extends", f"a circle: {way}", line=line, found=one)])
        if one not in texts:
            line = line_numbers(texts[path[-1]]).get("extends")
            fault = Fault(
                "extends", f"there is no {file_of(one)}: {' extends '.join((*path, one))}", line=line, found=one
            )
            raise ProfileError(file_of(path[-1]), [fault], hint=f"envlock init {one}, or name another profile")
        for parent in parents(texts[one], one):
            visit(parent, (*path, one))
        if one not in order:
            order.append(one)

    visit(name, ())
    return order[::-1]


def merge(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """Return a child laid over its parent: tables merge, lists append what is new, a scalar replaces."""
    merged = dict(parent)
    for key, value in child.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            merged[key] = [*before, *(item for item in value if item not in before)]
        else:
            merged[key] = value
    return merged


def _read(name: str, top: Table, *, extends: tuple[str, ...] = ()) -> Profile:
    """Take a table apart; keys that are absent get their defaults, keys that are wrong become faults."""
    _extends(top)
    python = top.text("python")
    if python is not None and (not _PYTHON.fullmatch(python) or ".".join(python.split(".")[:2]) not in PYTHONS):
        top.fault("python", f"must be one of {', '.join(PYTHONS)}, or such a version with a micro number", found=python)
    newer = top.take("exclude-newer", object)
    if newer is not None:
        newer = str(newer)
        if not _DAY.fullmatch(newer):
            top.fault("exclude-newer", 'must be a day such as "2026-11-30"', found=newer)
    return Profile(
        name=name,
        description=top.text("description") or "",
        extends=extends,
        python=python or "",
        requirements=_requirements(top, "requirements"),
        constraints=_requirements(top, "constraints", plain=True),
        overrides=_requirements(top, "overrides"),
        exclude=_names(top, "exclude"),
        prerelease=_prerelease(top),
        exclude_newer=newer,
        torch=_torch(top),
        indexes=_indexes(top),
        gpu=_gpu(top),
        kernels=_kernels(top),
        env=_env(top),
        platform=_platform(top),
        builds=_builds(top),
        overlaps=_overlaps(top),
        links=top.choice("links", LINKS) or "auto",
        container=_container(top),
    )


def _extends(top: Table) -> None:
    value = top.data.get("extends")
    top.asked.add("extends")
    if value is None:
        return
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(item, str) and is_profile_name(item) for item in names):
        top.fault("extends", "must be the name of a profile, or a list of names", found=value)


def _container(top: Table) -> str | None:
    name = top.text("container")
    if name is not None and not is_profile_name(name):
        top.fault("container", "must be the name of a container/NAME.toml", found=name)
    return name


def _requirements(top: Table, key: str, *, plain: bool = False) -> tuple[str, ...]:
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


def _direct(top: Table, key: str, line: str, url: str) -> None:
    """Judge a direct reference: it must be pinned to bytes, by a hash for a file, a full commit for git."""
    if url.startswith("git+"):
        revision = url.partition("#")[0].rpartition("@")[2]
        if not _COMMIT.fullmatch(revision):
            top.fault(key, f"{line!r}: pin git to a full commit, ...@<40 hexadecimal digits>", found=revision)
    elif not re.search(r"#(?:.*&)?sha256=[0-9a-f]{64}", url):
        top.fault(key, f"{line!r}: pin the file, ...#sha256=<64 hexadecimal digits>", found=line)
    if re.match(r"[a-z+]+://[^/@]*:[^/@]*@", url):
        top.fault(key, f"{line!r}: credentials do not belong in a profile; use your .netrc", found="credentials")


def _names(top: Table, key: str) -> tuple[str, ...]:
    return tuple(str(canonicalize_name(name)) for name in top.strings(key, _NAME, "is no name of a package"))


def _prerelease(top: Table) -> Any:
    value = top.data.get("prerelease")
    if isinstance(value, list):
        return _names(top, "prerelease")
    return top.choice("prerelease", ("disallow", "allow")) or "disallow"


def _torch(top: Table) -> Torch | None:
    table = top.table("torch")
    if table is None:
        return None
    version, cuda = table.text("version"), table.text("cuda")
    if version is not None:
        try:
            Version(version)
        except InvalidVersion:
            table.fault("version", 'must be one exact version such as "2.10.0"', found=version)
    if cuda is not None and cuda != "cpu" and not _CUDA.fullmatch(cuda):
        table.fault("cuda", 'must be a CUDA release such as "12.8", or "cpu"', found=cuda)
    torch = Torch(
        version=version or "", cuda=None if cuda in (None, "cpu") else cuda, index=table.text("index") or PYPI
    )
    table.close(("version", "cuda", "index"))
    return torch


def _indexes(top: Table) -> tuple[Index, ...]:
    found: list[Index] = []
    for table in top.tables("index"):
        name, url = table.text("name"), table.text("url")
        if name is None or not is_profile_name(name):
            table.fault("name", "is missing: the logical name of the index, lower-case letters, digits, -", found=name)
        if url is None or not _URL.fullmatch(url):
            table.fault("url", "is missing: where the index is, https://...", found=url)
        elif re.match(r"[a-z]+://[^/]*@", url):
            table.fault(
                "url",
                "credentials do not belong in a profile: map the index in your own configuration, or by "
                f"ENVLOCK_INDEX_{(name or 'NAME').upper().replace('-', '_')}_URL",
                found="credentials",
            )
        if name in [index.name for index in found]:
            table.fault("name", "two indexes of one name", found=name)
        found.append(Index(name=name or "", url=url or "", only=_names(table, "only")))
        table.close(("name", "url", "only"))
    return tuple(found)


def _gpu(top: Table) -> Gpu | None:
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


def _kernels(top: Table) -> Kernels:
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


def _env(top: Table) -> Environ:
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


def _platform(top: Table) -> Platform:
    table = top.table("platform")
    if table is None:
        return Platform()
    glibc = table.text("glibc")
    if glibc is not None and not _GLIBC.fullmatch(glibc):
        table.fault("glibc", 'must be a glibc release such as "2.35"', found=glibc)
    machine = table.choice("machine", MACHINES)
    table.close(("machine", "glibc"))
    return Platform(machine=MACHINES[0] if machine is None else machine, glibc=glibc or "2.28")


def _builds(top: Table) -> Mapping[str, Build]:
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
            requires=_requirements(table, "requires"), env=values, isolation=True if isolation is None else isolation
        )
        table.close(("requires", "env", "isolation"))
    return found


def _overlaps(top: Table) -> Mapping[str, tuple[str, ...]]:
    table = top.table("overlaps")
    if table is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for winner in table.data:
        if not _NAME.fullmatch(winner):
            table.fault(winner, "is no name of a package", found=winner)
        found[str(canonicalize_name(winner))] = _names(table, winner)
    return found


def _judge(top: Table, profile: Profile) -> None:
    """Judge what only the whole profile can lack or contradict."""
    if not profile.python:
        top.fault("python", 'is missing: the Python of this stack, such as "3.11"')
    _judge_torch(top, profile)
    if profile.gpu is not None and not profile.gpu.compute_capability:
        top.fault("gpu.compute-capability", 'is missing: major.minor of the GPUs, such as "12.0"')
    owners: dict[str, str] = {}
    for index in profile.indexes:
        for name in index.only:
            if name in owners and owners[name] != index.name:
                top.fault("index", f"{name!r} is in the `only` of {owners[name]} and of {index.name}", found=name)
            owners[name] = index.name
    both = {canonicalize_name(Requirement(line).name) for line in profile.requirements} & set(profile.exclude)
    for name in sorted(both):
        top.fault("exclude", f"{name!r} is required and excluded", found=name)


def _judge_torch(top: Table, profile: Profile) -> None:
    torch = profile.torch
    if torch is None:
        return
    if not torch.version:
        top.fault("torch.version", 'is missing: one exact version, such as "2.10.0"')
        return
    if "cuda" not in top.data["torch"]:
        top.fault("torch.cuda", 'is missing: the CUDA of this build, such as "12.8", or "cpu"')
    if torch.index != PYPI and profile.index(torch.index) is None:
        names = ", ".join([PYPI, *(index.name for index in profile.indexes)])
        top.fault("torch.index", f"no [[index]] has that name; there are: {names}", found=torch.index)
    try:
        version = Version(torch.version)
    except InvalidVersion:
        return
    local = version.local or ""
    expected = "cpu" if torch.cuda is None else f"cu{torch.cuda.replace('.', '')}"
    if (local.startswith("cu") or local == "cpu") and local != expected:
        top.fault("torch.version", f"+{local} contradicts cuda = {torch.cuda or 'cpu'!r}", found=torch.version)
    for line in profile.requirements:
        wanted = Requirement(line)
        if canonicalize_name(wanted.name) == "torch" and not wanted.specifier.contains(version, prereleases=True):
            top.fault("requirements", f"{line!r} contradicts [torch] version = {torch.version!r}", found=line)
