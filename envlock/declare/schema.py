"""JSON Schema of the profile format, so that editors complete it: put `#:schema profile.schema.json` first in a file.

The reader (declare/reader.py) stays the judge; a test holds the two to the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envlock.declare.tables import LINKS, LINTS, MACHINES, NEVER_PASSED, PYTHONS

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _text(description: str, pattern: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string", "description": description, **more}
    if pattern:
        found["pattern"] = f"^(?:{pattern})$"
    return found


def _list(description: str, items: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items or {"type": "string", "minLength": 1}, "description": description}


def _table(description: str, properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    found = {
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": False,
    }
    return {**found, "required": required} if required else found


_NAME = r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?"
_SIZE = r"[0-9]+(?:\.[0-9]+)?\s*(?:B|KiB|MiB|GiB|TiB)"


def profile_schema() -> dict[str, Any]:
    """Return the schema of profiles/NAME.toml."""
    return {
        "$schema": DRAFT,
        "title": "envlock profile",
        **_table(
            "One stack: Python, torch and its CUDA build, packages, indexes, GPU needs, environment variables.",
            {
                "description": _text("One line for people."),
                "extends": {
                    "description": "Profiles this one builds on: tables merge, lists append, a scalar replaces.",
                    "oneOf": [_text("", _NAME), _list("", _text("", _NAME))],
                },
                "python": _text(
                    "Python version: major.minor, or with a micro number to insist on it.",
                    rf"(?:{'|'.join(version.replace('.', chr(92) + '.') for version in PYTHONS)})(?:\.[0-9]{{1,2}})?",
                ),
                "requirements": _list("PEP 508 requirements; a URL needs #sha256=, git a full commit."),
                "constraints": _list("Versions to keep to, for packages that something else asks for."),
                "overrides": _list("Requirements that replace whatever packages ask for."),
                "exclude": _list("Packages that must not come in."),
                "prerelease": {
                    "description": "Whether pre-releases may be taken: for none, for all, or for the packages named.",
                    "oneOf": [{"enum": ["disallow", "allow"]}, _list("")],
                },
                "exclude-newer": {"description": "Ignore everything uploaded later; makes locking itself repeatable."},
                "torch": _table(
                    "The torch build this stack stands on.",
                    {
                        "version": _text("One exact version, 2.10.0 or 2.11.0+cu128."),
                        "cuda": _text("CUDA release of the build, 12.8, or cpu.", r"[0-9]{1,2}\.[0-9]|cpu"),
                        "index": _text("Logical index it comes from; pypi unless named.", _NAME),
                    },
                ),
                "index": {
                    "type": "array",
                    "description": "Package indexes by logical name; pypi need not be declared.",
                    "items": _table(
                        "",
                        {
                            "name": _text("Logical name; locks speak of it.", _NAME),
                            "url": _text("Where it is, without credentials.", r"(?:https?|file)://\S+"),
                            "only": _list("Names that come from here and nowhere else; nothing else comes from here."),
                        },
                        ["name", "url"],
                    ),
                },
                "gpu": _table(
                    "What the stack needs of the GPUs.",
                    {
                        "compute-capability": _text("Major.minor; 12.0 is SM120.", r"[0-9]{1,2}\.[0-9]"),
                        "count": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "How many."},
                        "min-driver": _text(
                            "Instead of the floor that follows from CUDA.", r"[0-9]{3}(?:\.[0-9]{1,3}){1,2}"
                        ),
                        "min-free-memory": _text("Per GPU, before launch.", _SIZE),
                        "exclusive": {"type": "boolean", "description": "No other process on the GPUs."},
                    },
                ),
                "kernels": _table(
                    "Which libraries must have code for the GPU.",
                    {
                        "require": _list("Import names, or globs of library paths, that must have it."),
                        "accept-missing": {
                            "type": "object",
                            "description": "Libraries that may lack it, each with the reason in words.",
                            "additionalProperties": {"type": "string", "minLength": 1},
                        },
                        "lint": {"enum": list(LINTS), "description": "What run does about backends without code."},
                    },
                ),
                "env": _table(
                    "Environment variables of a launch.",
                    {
                        "set": {
                            "type": "object",
                            "description": "Name to value; ${NAME} refers to the caller's.",
                            "additionalProperties": {"type": "string"},
                        },
                        "pass": _list(
                            "Names or patterns that cross from the caller.",
                            {"type": "string", "minLength": 1, "not": {"enum": [*NEVER_PASSED, "*"]}},
                        ),
                    },
                ),
                "platform": _table(
                    "What the lock is made for.",
                    {
                        "machine": {"enum": list(MACHINES)},
                        "glibc": _text("The oldest glibc it may meet.", r"2\.[0-9]{1,2}"),
                    },
                ),
                "build": {
                    "type": "object",
                    "description": "How to build a package that has no wheel.",
                    "additionalProperties": _table(
                        "",
                        {
                            "requires": _list("What the build needs."),
                            "env": {"type": "object", "additionalProperties": {"type": "string"}},
                            "isolation": {"type": "boolean"},
                        },
                    ),
                },
                "overlaps": {
                    "type": "object",
                    "description": "Winner to losers: packages that install one file with other bytes.",
                    "additionalProperties": _list(""),
                },
                "links": {"enum": list(LINKS), "description": "How files get from uv's cache into the environment."},
                "container": _text("The container this profile is meant for.", _NAME),
            },
        ),
    }


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"profile": profile_schema}
"""Kind -> schema of what this layer reads; the command adds the container's."""
