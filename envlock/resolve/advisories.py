"""Known vulnerabilities of name-and-version pairs, asked of an advisory service through `uv audit`.

Why uv: ../docs/decisions/0008-audit-through-uv.md. An answer counts only when it says that every package was asked.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlock import system
from envlock.errors import NotAudited
from envlock.lock import toml_text
from envlock.resolve import uv

SERVICE_URL = "ENVLOCK_ADVISORIES_URL"
"""The variable that names another service than uv's own, one that speaks OSV."""
_PROJECT = "envlock-audit"

Pair = tuple[str, str]
"""Name and version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vulnerability:
    """One advisory that holds for one version of one package."""

    id: str
    aliases: tuple[str, ...]
    package: str
    version: str
    """The version as the lock has it."""
    fixed: tuple[str, ...]
    """The versions it is mended in; empty: none yet."""
    summary: str
    link: str


def vulnerabilities(pairs: Iterable[Pair], environ: Mapping[str, str]) -> dict[Pair, tuple[Vulnerability, ...]]:
    """Return what is known of each pair; every pair is a key. Raises NotAudited when not all could be asked."""
    groups = batches(pairs)
    answers = system.side_by_side(lambda group: _ask(group, environ), groups, max(1, min(len(groups), 4)))
    return {pair: found for answer in answers for pair, found in answer.items()}


def batches(pairs: Iterable[Pair]) -> list[dict[str, str]]:
    """Return the pairs in as few groups as may be, each name once in a group, as in a lock of uv."""
    groups: list[dict[str, str]] = []
    for name, version in sorted(set(pairs)):
        group = next((group for group in groups if name not in group), None)
        if group is None:
            groups.append({name: version})
        else:
            group[name] = version
    return groups


def public(version: str) -> str:
    """Return a version without its local part: advisories know 2.11.0, not 2.11.0+cu128."""
    return version.partition("+")[0]


def _ask(group: Mapping[str, str], environ: Mapping[str, str]) -> dict[Pair, tuple[Vulnerability, ...]]:
    with tempfile.TemporaryDirectory(prefix="envlock-audit-") as folder:
        for name, text in project(group).items():
            Path(folder, name).write_text(text)
        done = uv.audit(Path(folder), environ=environ, service_url=environ.get(SERVICE_URL) or None)
    return read_answer(done.stdout, done.stderr, done.returncode, group)


def project(group: Mapping[str, str]) -> dict[str, str]:
    """Return a project that depends on exactly these packages, as the files uv reads; it is never resolved."""
    index = {"registry": "index"}  # a folder that is not there: uv would ask an address for the state of each project
    packages = "".join(
        "\n[[package]]\n"
        + toml_text.pair("name", name)
        + toml_text.pair("version", public(version))
        + toml_text.pair("source", index)
        for name, version in sorted(group.items())
    )
    head = 'version = 1\nrevision = 3\nrequires-python = ">=3.8"\n'
    own = (
        toml_text.pair("name", _PROJECT)
        + toml_text.pair("version", "0")
        + toml_text.pair("source", {"virtual": "."})
        + toml_text.pair("dependencies", [{"name": name} for name in sorted(group)])
    )
    return {
        "pyproject.toml": f'[project]\nname = "{_PROJECT}"\nversion = "0"\nrequires-python = ">=3.8"\n',
        "uv.lock": f"{head}\n[[package]]\n{own}{packages}",
    }


def read_answer(stdout: str, stderr: str, code: int, group: Mapping[str, str]) -> dict[Pair, tuple[Vulnerability, ...]]:
    """Return uv's answer for a group. Raises NotAudited: none, one that cannot be read, one about fewer packages."""
    if code not in (0, 1) or not stdout.strip():
        causes = [line.strip().removeprefix("cause:").strip() for line in stderr.splitlines() if "cause:" in line]
        raise NotAudited(
            "the advisory service could not be asked",
            found=f"{causes[0]}: {causes[-1]}"
            if len(causes) > 1
            else (causes or uv.shortened(stderr) or ["nothing"])[-1],
            hint=f"check the network, or name another service that speaks OSV in {SERVICE_URL}",
        )
    try:
        data = json.loads(stdout)
        asked = data["summary"]["audited_packages"]
        found = [_vulnerability(item, group) for item in data["vulnerabilities"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAudited(
            "uv's answer cannot be read", found=repr(error), hint="python -m pip install 'uv<0.14'"
        ) from error
    if asked != len(group):
        raise NotAudited("uv did not ask for every package", expected=str(len(group)), found=str(asked))
    return {
        (name, version): tuple(sorted((v for v in found if v.package == name), key=lambda v: v.id))
        for name, version in group.items()
    }


def _vulnerability(item: Mapping[str, Any], group: Mapping[str, str]) -> Vulnerability:
    name = item["dependency"]["name"]
    return Vulnerability(
        id=item["id"],
        aliases=tuple(item.get("aliases") or ()),
        package=name,
        version=group[name],
        fixed=tuple(item.get("fix_versions") or ()),
        summary=" ".join((item.get("summary") or "").split()),
        link=item.get("link") or "",
    )
