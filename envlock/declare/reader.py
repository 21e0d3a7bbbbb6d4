"""profiles/NAME.toml and its parents -> Profile, or every fault at once. Pure: texts in, value out.

Each file is judged by itself first, so that a fault is told where it stands; then the whole, for what only the whole
can lack or contradict.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envlock.declare import tables
from envlock.declare.fields import Table, line_numbers
from envlock.declare.profile import (
    PYPI,
    Profile,
)
from envlock.declare.tables import LINKS, PYTHONS
from envlock.errors import Fault, ProfileError
from envlock.layout import is_profile_name

KEYS = (
    "description", "extends", "python", "requirements", "constraints", "overrides", "exclude", "prerelease",
    "exclude-newer", "torch", "index", "gpu", "kernels", "env", "platform", "build", "overlaps", "links", "container",
)  # fmt: skip

_PYTHON = re.compile(r"3\.[0-9]{1,2}(?:\.[0-9]{1,2})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")


def read_profile(name: str, texts: Mapping[str, str]) -> Profile:
    """Return the profile that `texts[name]` declares, its parents (also in `texts`) applied.

    Raises ProfileError with every fault of every file: unknown keys, wrong types; with none of these, what only the
    whole can contradict; or with a missing parent, or a cycle.
    """
    chain = _chain(name, texts)
    merged: dict[str, Any] = {}
    faults: list[Fault] = []
    for one in reversed(chain):
        data = _toml(one, texts[one])
        mine: list[Fault] = []
        top = Table(data, "", mine, cache(partial(line_numbers, texts[one])))
        _read(one, top)
        top.close(KEYS)
        for fault in mine:
            fault.file = file_of(one)
        faults = [*mine, *faults]  # those of the file that was asked for come first
        merged = merge(merged, data)
    if not faults:
        merged.pop("extends", None)
        whole = Table(merged, "", faults, {})
        profile = _read(name, whole, extends=tuple(chain[1:]))
        _judge(whole, profile)
        if not faults:
            return profile
        for fault in faults:
            _place(fault, chain, texts)
    first = faults[0].file or file_of(name)
    raise ProfileError(file_of(name), faults, hint=f"edit {first}; docs/profile.md has every key")


def _place(fault: Fault, chain: Sequence[str], texts: Mapping[str, str]) -> None:
    """Tell a fault of the whole where its value stands: in the profile itself, or in the parent it came from."""
    for key in (fault.key, f"{fault.key}[0]", fault.key.rpartition(".")[0]):
        for one in chain:
            line = line_numbers(texts[one]).get(key) if key else None
            if line is not None:
                fault.file, fault.line = file_of(one), line
                return


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
    except (ValueError, RecursionError) as error:  # ValueError: not TOML, or a number of thousands of digits
        match = re.search(r"at line ([0-9]+)", str(error))
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
        if one in order:
            return  # by another way already: a diamond is walked once
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
        if not _is_day(newer):
            top.fault("exclude-newer", 'must be a day such as "2026-11-30"', found=newer)
    return Profile(
        name=name,
        description=top.text("description") or "",
        extends=extends,
        python=python or "",
        requirements=tables.requirements(top, "requirements"),
        constraints=tables.requirements(top, "constraints", plain=True),
        overrides=tables.requirements(top, "overrides"),
        exclude=tables.names(top, "exclude"),
        prerelease=tables.prerelease(top),
        exclude_newer=newer,
        torch=tables.torch(top),
        indexes=tables.indexes(top),
        gpu=tables.gpu(top),
        kernels=tables.kernels(top),
        env=tables.env(top),
        platform=tables.platform(top),
        builds=tables.builds(top),
        overlaps=tables.overlaps(top),
        links=top.choice("links", LINKS) or "auto",
        container=_container(top),
    )


def _is_day(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return _DAY.fullmatch(text) is not None


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
