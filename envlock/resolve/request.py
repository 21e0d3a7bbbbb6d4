"""A profile as a question to uv: a project file, the pins to keep, and options. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock.declare.profile import PYPI, Profile, lock_inputs
from envlock.lock import toml_text
from envlock.resolve.builds import settings
from envlock.resolve.target import python_minor, uv_platform

PROJECT = "envlock-request"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Everything uv is told, as text: files by name, and options without paths."""

    files: Mapping[str, str]
    options: tuple[str, ...]


def direct_requirements(profile: Profile) -> tuple[str, ...]:
    """Return what the profile asks for itself, the torch pin first."""
    torch = () if profile.torch is None else (f"torch=={profile.torch.version}",)
    return (*torch, *profile.requirements)


def index_of(profile: Profile) -> dict[str, str]:
    """Return normalised name -> logical index for every name that may come from one index only."""
    bound: dict[str, str] = {
        str(canonicalize_name(name)): index.name for index in profile.indexes for name in index.only
    }
    if profile.torch is not None and profile.torch.index != PYPI:
        bound.setdefault("torch", profile.torch.index)
    return bound


def build_request(
    profile: Profile,
    urls: Mapping[str, str],
    *,
    project_root: str,
    pins: Mapping[str, str],
    bound: Iterable[str] = (),
) -> Request:
    """Return the question for a profile.

    `urls` maps logical indexes to where they are here; `pins` are versions to keep unless something forces them to
    move; `bound` are further names that must come from the one index that may serve them: uv applies an index binding
    to direct requirements only, so a bound name that turns up as a dependency is asked for by name in the next round.
    """
    names = index_of(profile)
    dependencies = [located(line, project_root) for line in direct_requirements(profile)]
    asked = {canonicalize_name(Requirement(line).name) for line in direct_requirements(profile)}
    dependencies += sorted(name for name in bound if name not in asked)
    document: list[str] = [
        toml_text.table(
            ["project"],
            {
                "name": PROJECT,
                "version": "0",
                "requires-python": f"=={'.'.join(map(str, python_minor(profile.python)))}.*",
                "dependencies": dependencies,
            },
        ),
    ]
    sources = {name: {"index": index} for name, index in sorted(names.items()) if index != PYPI and index in urls}
    if sources:
        document.append(
            "\n[tool.uv.sources]\n" + "".join(toml_text.pair(name, source) for name, source in sources.items())
        )
    options = list(_options(profile))
    if PYPI in urls:
        options += ["--default-index", urls[PYPI]]
    for index in profile.indexes:
        if index.name == PYPI:
            continue
        if index.only or index.name in names.values():
            table = {"name": index.name, "url": urls[index.name], "explicit": True}
            document.append("\n[[tool.uv.index]]\n" + "".join(toml_text.pair(key, item) for key, item in table.items()))
        else:
            options += ["--index", f"{index.name}={urls[index.name]}"]
    files = {
        "pyproject.toml": "".join(document),
        "constraints.txt": _lines(profile.constraints),
        "overrides.txt": _lines(located(line, project_root) for line in profile.overrides),
        "excludes.txt": _lines(profile.exclude),
        "uv.toml": settings(lock_inputs(profile).get("build")),
        "pins.txt": _lines(f"{name}=={version}" for name, version in sorted(pins.items())),
    }
    return Request(files=files, options=tuple(options))


def _options(profile: Profile) -> tuple[str, ...]:
    options = [
        "--python-version",
        profile.python,
        "--python-platform",
        uv_platform(profile),
        "--no-python-downloads",
        "--no-progress",
        "--color",
        "never",
        "--no-header",
        "--no-strip-extras",
    ]
    if isinstance(profile.prerelease, str):
        options += ["--prerelease", profile.prerelease]
    else:
        options += ["--prerelease", "disallow"]
        for name in profile.prerelease:
            options += ["--prerelease-package", f"{name}=allow"]
    if profile.exclude_newer is not None:
        options += ["--exclude-newer", profile.exclude_newer]
    return tuple(options)


def _lines(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in items)


def located(requirement: str, project_root: str) -> str:
    """Return a requirement whose local path, relative in the profile, is absolute for uv."""
    root = quote(project_root)
    return requirement.replace("file:./", f"file://{root}/").replace("file:../", f"file://{root}/../")


def written(profile: Profile) -> dict[str, str]:
    """Return normalised name -> the URL that the profile itself gives for it, fragment included."""
    wanted = (Requirement(line) for line in (*profile.overrides, *profile.requirements))
    return {str(canonicalize_name(one.name)): one.url for one in wanted if one.url is not None}


def pinned_hash(url: str) -> str | None:
    """Return the sha256 that a direct URL's fragment pins, if any."""
    match = re.search(r"#(?:.*&)?sha256=([0-9a-f]{64})", url)
    return None if match is None else match[1]
