"""Packages that must fit each other: CUDA twins, flashinfer's parts, Triton's assembler. Pure."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from envlock.verify import rules
from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.facts import Installed
from envlock.verify.subject import Subject

_TWIN = re.compile(r"(nvidia-[a-z0-9-]+?)-cu([0-9][0-9])")
_PARTS = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge packages against each other by their metadata."""
    return (_twins(subject), _single(subject), _metadata(subject), _flashinfer(subject), _assembler(subject))


def _twins(subject: Subject) -> Check:
    name = "packages.cuda-twins"
    majors: dict[str, dict[str, str]] = {}
    for item in subject.facts.installed:
        match = _TWIN.fullmatch(item.name)
        if match:
            majors.setdefault(match[1], {})[match[2]] = item.name
    twins = [" and ".join(names.values()) for names in majors.values() if len(names) > 1]
    if not twins:
        return good(name, found="no NVIDIA library is installed for two CUDA majors")
    return bad(
        name,
        expected="each NVIDIA library for one CUDA major",
        found=listed(twins),
        where=subject.site,
        remedy="they overwrite each other's files: `exclude` the one torch does not need, then envlock lock",
    )


def _single(subject: Subject) -> Check:
    name = "packages.one-version"
    folders: dict[str, list[str]] = {}
    for item in subject.facts.installed:
        for claimed in {item.name, item.told_name or item.name}:
            folders.setdefault(claimed, []).append(item.folder)
    several = [" and ".join(items) for items in folders.values() if len(items) > 1]
    if not several:
        return good(name, found=f"{len(subject.facts.installed)} distributions, one version each")
    return bad(
        name,
        expected="one version of a package",
        found=listed(several),
        where=subject.site,
        remedy="an interrupted or overlaid install: build the environment anew",
    )


def _metadata(subject: Subject) -> Check:
    name = "packages.metadata"
    wrong = {item.folder: told for item in subject.facts.installed if (told := _otherwise(item))}
    if not wrong:
        return good(name, found=f"{len(subject.facts.installed)} distributions, each named as its metadata says")
    return bad(
        name,
        expected="METADATA that tells the name and the version of its folder",
        found=listed([f"{folder}: {told}" for folder, told in wrong.items()]),
        where=f"{subject.site}/{next(iter(wrong))}",
        remedy="edited, or left by an interrupted install: envlock sync --rebuild, or install that package anew",
    )


def _otherwise(item: Installed) -> str:
    """Return what a distribution's metadata says other than the name of its folder, or nothing."""
    if not item.told_name or not item.told_version:
        return "no METADATA that can be read"
    if item.told_name != item.name:
        return f"METADATA of {item.told_name}"
    one, other = item.told_version.replace("_", "-"), item.version.replace("_", "-")
    try:
        same = one == other or Version(one) == Version(other)
    except InvalidVersion:
        same = False
    return "" if same else f"METADATA of version {item.told_version}"


def _flashinfer(subject: Subject) -> Check:
    name = "packages.flashinfer"
    parts = {part: item.version for part in _PARTS if (item := subject.facts.package(part))}
    if len(parts) < 2:
        return skipped(name, "flashinfer has no parts here that could differ")
    told = ", ".join(f"{part} {version}" for part, version in parts.items())
    builds = {version.split("+")[1] for version in parts.values() if re.search(r"\+cu[0-9]", version)}
    torch = subject.facts.torch
    short = "" if torch is None or torch.cuda is None else f"cu{torch.cuda.replace('.', '')}"
    if len({version.split("+")[0] for version in parts.values()}) == 1 and builds <= {short}:
        return good(name, found=told)
    return bad(
        name,
        expected=f"one version of flashinfer's parts{', for ' + short if builds else ''}",
        found=told,
        where=subject.site,
        remedy="pin flashinfer-cubin and flashinfer-jit-cache to flashinfer-python's version, then envlock lock",
    )


def _assembler(subject: Subject) -> Check:
    name, capability = "triton.assembler", subject.capability
    if capability is None:
        return skipped(name, "no compute capability declared")
    mine = {item.path.rpartition("/")[2]: item for item in subject.facts.ptxas if item.path.startswith("triton/")}
    if not mine:
        return skipped(name, "no Triton with a PTX assembler here")
    wanted = rules.device(capability)
    # Triton 3.5 and later take `ptxas-blackwell` from 10.0 on where it is there.
    used = mine.get("ptxas-blackwell") if wanted >= 100 else None
    used = used or mine.get("ptxas") or next(iter(mine.values()))
    known = rules.assembles(used.release, wanted)
    if known:
        return good(name, found=f"ptxas of CUDA {used.release} knows sm_{wanted}")
    since = rules.PTXAS_SINCE.get(wanted)
    return bad(
        name,
        status="warn" if known is None else "fail",
        expected=f"a ptxas of CUDA {since} or later, for sm_{wanted}" if since else f"a ptxas that knows sm_{wanted}",
        found=f"ptxas of CUDA {used.release or 'unknown'}",
        where=f"{subject.site}/{used.path}",
        remedy="take a newer triton with its torch, or set TRITON_PTXAS_PATH to a newer one in [env]",
    )
