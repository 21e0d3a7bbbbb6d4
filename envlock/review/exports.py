"""A lock in other tools' formats. Pure: where files are (`urls`, file name -> URL) the caller asks the indexes.

Formats: PEP 751 pylock, hashed requirements, constraints, CycloneDX 1.6. Deterministic: equal locks give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from envlock.lock import toml_text
from envlock.lock.document import Direct, Lock, Package
from envlock.review.reasons import name_of

Urls = Mapping[str, str]


def requirements(lock: Lock, _: Urls) -> str:
    """Return hashed requirements, as pip and uv install with `--require-hashes`."""
    lines = [_head(lock)]
    for package in lock.packages:
        hashes = "".join(f" \\\n    --hash=sha256:{artifact.sha256}" for artifact in package.artifacts)
        lines.append(f"{_pin(package)}{hashes}\n")
    return "".join(lines)


def constraints(lock: Lock, _: Urls) -> str:
    """Return `name==version` lines: what others must keep to."""
    return _head(lock) + "".join(f"{package.name}=={package.version}\n" for package in lock.packages)


def _head(lock: Lock) -> str:
    return f"# The lock of profile {lock.profile} for Python {lock.python}, exported by envlock; do not edit.\n"


def _pin(package: Package) -> str:
    if package.direct is None:
        return f"{package.name}=={package.version}"
    if package.direct.kind == "git":
        return f"{package.name} @ git+{package.direct.location}@{package.direct.revision}"
    return f"{package.name} @ {package.direct.location}"


def pylock(lock: Lock, urls: Urls) -> str:
    """Return a PEP 751 document. Every file needs a URL there, which the lock does not hold: `urls` gives them."""
    parts = [
        f'lock-version = "1.0"\ncreated-by = "envlock"\nrequires-python = "=={lock.python}.*"\n'
        if lock.python.count(".") == 1
        else f'lock-version = "1.0"\ncreated-by = "envlock"\nrequires-python = "=={lock.python}"\n'
    ]
    for package in lock.packages:
        lines = ["\n[[packages]]\n", toml_text.pair("name", package.name), toml_text.pair("version", package.version)]
        direct = package.direct
        if direct is not None and direct.kind == "git":
            lines.append(
                toml_text.pair("vcs", {"type": "git", "url": direct.location, "commit-id": direct.revision or ""})
            )
        elif direct is not None:
            lines.append(
                toml_text.pair("archive", {**_place(direct), "hashes": {"sha256": package.artifacts[0].sha256}})
            )
        elif package.artifacts:
            files = [_file(artifact.file, artifact.size, artifact.sha256, urls) for artifact in package.artifacts]
            wheel = package.artifacts[0].is_wheel
            lines.append(toml_text.pair("wheels", files) if wheel else toml_text.pair("sdist", files[0]))
        parts.append("".join(lines))
    return "".join(parts)


def _file(name: str, size: int | None, sha256: str, urls: Urls) -> dict[str, Any]:
    return {"name": name, "url": urls[name], "size": size, "hashes": {"sha256": sha256}}


def _place(direct: Direct) -> dict[str, str]:
    """Return where a file outside every index is: a path counts from the document (PEP 751)."""
    if direct.kind == "path" and direct.location.startswith("file:."):
        return {"path": unquote(direct.location.removeprefix("file:"))}
    return {"url": direct.location}


def cyclonedx(lock: Lock, _: Urls) -> str:
    """Return a CycloneDX 1.6 bill of materials. Its serial number is a digest of its content, so it is repeatable."""
    components = [_component(package) for package in lock.packages]
    dependencies = [
        {
            "ref": _purl(package),
            "dependsOn": sorted({_purl(lock.by_name[name_of(line)]) for line in package.requires}),
        }
        for package in lock.packages
    ]
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "envlock"}]},
            "component": {"type": "application", "name": lock.profile, "bom-ref": lock.profile},
        },
        "components": components,
        "dependencies": dependencies,
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    serial = uuid.UUID(hex=digest[:32], version=5)
    return json.dumps({"bomFormat": "CycloneDX", "serialNumber": f"urn:uuid:{serial}", **body}, indent=1) + "\n"


def _component(package: Package) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "purl": _purl(package),
    }
    if package.artifacts:
        found["hashes"] = [{"alg": "SHA-256", "content": package.artifacts[0].sha256}]
    if package.license:
        found["licenses"] = [{"license": {"name": package.license}}]
    return found


def _purl(package: Package) -> str:
    """Return a package URL (purl-spec, type pypi), with where it is from when that is no index."""
    purl = f"pkg:pypi/{package.name}@{quote(package.version, safe='!')}"
    direct = package.direct
    if direct is None:
        return purl
    if direct.kind == "git":
        return f"{purl}?vcs_url={quote(f'git+{direct.location}@{direct.revision}', safe=':/')}"
    return f"{purl}?download_url={quote(direct.location, safe=':/')}"


FORMATS: Mapping[str, Callable[[Lock, Urls], str]] = {
    "pylock": pylock,
    "requirements": requirements,
    "cyclonedx": cyclonedx,
    "constraints": constraints,
}
NEEDS_URLS = frozenset({"pylock"})
