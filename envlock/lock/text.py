"""The lock file's one writer and one reader: `Lock` <-> TOML text. Pure.

First comes a digest of all that follows it, so that an edit by hand, a half-written file or an unfinished merge is
noticed before anything is built from it. What exactly is wrong is looked for only then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envlock.errors import Fault, LockError
from envlock.lock import canonical
from envlock.lock.canonical import FORMAT
from envlock.lock.document import Artifact, Coverage, DeviceCode, Direct, Lock, Package, TorchBuild

_MERGE_MARK = re.compile(r"^(<{7} |={7}$|>{7} |\|{7} )", re.MULTILINE)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def dump(lock: Lock) -> str:
    """Return the lock as text; equal locks give equal bytes."""
    head = (
        f"# The lock of profile {lock.profile}. Review it and commit it; never edit it:\n"
        f"#   change profiles/{lock.profile}.toml, then `envlock lock {lock.profile}`.\n"
    )
    body = _body(lock)
    return f'{head}content-digest = "{canonical.sha256(body.encode())}"\n{body}'


def _body(lock: Lock) -> str:
    from envlock.lock import toml_text  # late: who only reads locks needs no writer

    torch = lock.torch
    parts = [
        f'profile-digest = "{lock.profile_digest}"\n',
        f"format = {lock.format}\n",
        toml_text.pair("profile", lock.profile),
        toml_text.table(["target"], {"python": lock.python, "machine": lock.machine, "glibc": lock.glibc}),
    ]
    if torch is not None:
        parts.append(
            toml_text.table(
                ["torch"],
                {
                    "version": torch.version,
                    "cuda": torch.cuda,
                    "runtime": torch.runtime,
                    "driver-floor": torch.driver_floor,
                },
            )
        )
    parts.append(toml_text.table(["inputs"], lock.inputs))
    parts.extend(_package(package) for package in lock.packages)
    return "".join(parts)


def _package(package: Package) -> str:
    from envlock.lock import toml_text

    lines = ["\n[[package]]\n", toml_text.pair("name", package.name), toml_text.pair("version", package.version)]
    if package.index:
        lines.append(toml_text.pair("index", package.index))
    if package.direct is not None:
        direct = package.direct
        lines.append(
            toml_text.pair(
                "direct",
                {
                    "kind": direct.kind,
                    "location": direct.location,
                    "revision": direct.revision,
                    "subdirectory": direct.subdirectory,
                },
            )
        )
    if package.license:
        lines.append(toml_text.pair("license", package.license))
    if package.requires_python:
        lines.append(toml_text.pair("requires-python", package.requires_python))
    if package.requires:
        lines.append(toml_text.pair("requires", list(package.requires)))
    lines.append(
        toml_text.pair(
            "artifacts",
            [{"file": item.file, "size": item.size, "sha256": item.sha256} for item in package.artifacts],
        )
    )
    if package.installed_size is not None:
        lines.append(toml_text.pair("installed-size", package.installed_size))
    if package.yanked is not None:
        lines.append(toml_text.pair("yanked", package.yanked))
    if package.device_code is not None:
        code = package.device_code
        lines.append(
            toml_text.table(
                ["package", "device-code"],
                {
                    "targets": list(code.targets),
                    "uncovered": list(code.uncovered) or None,
                    "coverage": {
                        capability: {"sass": item.sass, "ptx": item.ptx, "none": item.none}
                        for capability, item in code.coverage.items()
                    },
                },
            )
        )
    return "".join(lines)


def parse(text: str, file: str, *, profile: str | None = None) -> Lock:
    """Return the lock a text holds; `file` is for messages, `profile` the name it must be for.

    Raises LockError: malformed, unfinished merge, newer format, another profile's, or edited by hand (naming the
    package where that can be told).
    """
    again = f"envlock lock {profile or 'NAME'}"
    whole = canonical.read(text)
    data = _parsed(text, file, again) if whole is None else whole
    number = data.get("format")
    if not isinstance(number, int):
        raise LockError(
            file, [Fault("format", "missing: this is not a lock of envlock, or it was cut short")], hint=again
        )
    if number > FORMAT:
        raise LockError(
            file,
            [Fault("format", f"lock format {number}; this envlock reads up to {FORMAT}", found=str(number))],
            hint="upgrade envlock, or lock again with this one",
        )
    if profile is not None and data.get("profile") != profile:
        raise LockError(
            file, [Fault("profile", f"a lock of profile {data.get('profile')!r}, not of {profile!r}")], hint=again
        )
    if whole is None:
        stated = canonical.split(text)
        if stated is None or canonical.sha256(stated[1].encode()) != stated[0]:
            raise LockError(file, _what_was_edited(data), hint=f"git checkout -- {file}, or {again}")
    try:
        return _from_data(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LockError(file, [Fault("", f"not a lock: {error!r}")], hint=again) from error


def _parsed(text: str, file: str, again: str) -> dict[str, Any]:
    """Return what any TOML holds, or say what is wrong with a text that is none."""
    import tomllib  # late: a lock that is as it was written needs no parser for all of TOML

    merge = _MERGE_MARK.search(text)
    if merge:
        line = text.count("\n", 0, merge.start()) + 1
        raise LockError(file, [Fault("", "an unfinished merge", line=line, found=merge[0].strip())], hint=again)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line ([0-9]+)", str(error))
        fault = Fault("", f"not TOML, or cut short: {error}", line=int(found[1]) if found else None)
        raise LockError(file, [fault], hint=again) from error


def _from_data(data: Mapping[str, Any]) -> Lock:
    target, torch = data["target"], data.get("torch")
    return Lock(
        profile=data["profile"],
        profile_digest=data["profile-digest"],
        inputs=data.get("inputs", {}),
        python=target["python"],
        machine=target["machine"],
        glibc=target["glibc"],
        torch=None
        if torch is None
        else TorchBuild(
            version=torch["version"],
            cuda=torch.get("cuda"),
            runtime=torch["runtime"],
            driver_floor=torch.get("driver-floor"),
        ),
        packages=tuple(_package_from(item) for item in data.get("package", ())),
        format=data["format"],
    )


def _package_from(item: Mapping[str, Any]) -> Package:
    direct, code = item.get("direct"), item.get("device-code")
    return Package(
        name=item["name"],
        version=item["version"],
        index=item.get("index", ""),
        requires=tuple(item.get("requires", ())),
        artifacts=tuple(
            Artifact(file=one["file"], size=one.get("size"), sha256=one["sha256"]) for one in item["artifacts"]
        ),
        direct=None
        if direct is None
        else Direct(
            kind=direct["kind"],
            location=direct["location"],
            revision=direct.get("revision"),
            subdirectory=direct.get("subdirectory"),
        ),
        license=item.get("license", ""),
        requires_python=item.get("requires-python", ""),
        installed_size=item.get("installed-size"),
        yanked=item.get("yanked"),
        device_code=None
        if code is None
        else DeviceCode(
            targets=tuple(code["targets"]),
            uncovered=tuple(code.get("uncovered", ())),
            coverage={name: Coverage(**counts) for name, counts in code.get("coverage", {}).items()},
        ),
    )


def _what_was_edited(data: Mapping[str, Any]) -> list[Fault]:
    """Return what in an edited lock contradicts itself; the digest alone cannot tell where."""
    # Late: a lock that is as it was written is read without the packaging library, and that is nearly always.
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    faults = [
        Fault(
            "content-digest", "the lock was edited by hand, or a merge left it inconsistent: its digest does not match"
        )
    ]
    packages = [item for item in data.get("package", ()) if isinstance(item, Mapping)]
    names = {item.get("name") for item in packages}
    for item in packages:
        name, version = str(item.get("name")), str(item.get("version"))
        for artifact in item.get("artifacts", ()):
            if not _SHA256.fullmatch(str(artifact.get("sha256", ""))):
                faults.append(
                    Fault(f"package {name}", "sha256 is not 64 hexadecimal digits", found=artifact.get("sha256"))
                )
            told = _name_and_version(str(artifact.get("file", "")))
            if told and told != (canonicalize_name(name), _canonical(version)):
                faults.append(
                    Fault(
                        f"package {name}", f"version {version} does not fit its file {artifact['file']}", found=version
                    )
                )
        for line in item.get("requires", ()):
            try:
                wanted = canonicalize_name(Requirement(line).name)
            except InvalidRequirement:
                faults.append(Fault(f"package {name}", f"{line!r} is no requirement"))
                continue
            if wanted not in names:
                faults.append(
                    Fault(f"package {name}", f"requires {wanted}, which is missing from the lock", found=line)
                )
    return faults


def _canonical(version: str) -> str:
    from packaging.version import Version

    try:
        return str(Version(version))
    except ValueError:
        return version


def _name_and_version(file: str) -> tuple[str, str] | None:
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    try:
        if file.endswith(".whl"):
            name, version, _, _ = parse_wheel_filename(file)
        else:
            name, version = parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return name, str(version)
