"""How packages without a wheel are built, as settings of uv: requirements and variables of each build. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlock.lock import toml_text


def settings(builds: object) -> str:
    """Return a configuration file for uv from the `build` table of a lock's inputs; empty when there is nothing to say.

    uv's `extra-build-dependencies` and `extra-build-variables` reach the named package's build and no other.
    """
    tables: Mapping[str, Any] = builds if isinstance(builds, Mapping) else {}
    requires = {name: list(build["requires"]) for name, build in tables.items() if build.get("requires")}
    variables = {name: dict(build["env"]) for name, build in tables.items() if build.get("env")}
    return "".join(
        toml_text.table([key], content)
        for key, content in (("extra-build-dependencies", requires), ("extra-build-variables", variables))
        if content
    )
