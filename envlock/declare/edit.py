"""Editing a profile's text as a person would: comments, order and layout stay. Pure: text in, text out.

tomlkit was chosen because it keeps all of that; it is imported by the commands that edit, never on the launch path.
"""

from __future__ import annotations

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from tomlkit.items import Array

from envlock.errors import UsageError


def name_of(requirement: str) -> str:
    """Return the normalised name of a requirement. Raises UsageError when it is none."""
    try:
        return str(canonicalize_name(Requirement(requirement).name))
    except InvalidRequirement as error:
        raise UsageError(
            f"{requirement!r} is no requirement: {str(error).splitlines()[0]}", hint="such as 'numpy>=2,<3' (PEP 508)"
        ) from error


def add(text: str, requirement: str) -> tuple[str, str | None]:
    """Return the text with a requirement added, and the line it replaced (same name) or None."""
    document = tomlkit.parse(text)
    wanted = name_of(requirement)
    listed = document.get("requirements")
    if not isinstance(listed, Array):
        made = tomlkit.array()
        made.append(requirement)
        _insert_after_scalars(document, made)
        return tomlkit.dumps(document), None
    for position, line in enumerate(listed):
        if name_of(str(line)) == wanted:
            before = str(line)
            listed[position] = requirement
            return tomlkit.dumps(document), before
    if "\n" in listed.as_string():
        listed.add_line(requirement, indent=_indent(listed.as_string()), add_comma=True)
    else:
        listed.append(requirement)
    return tomlkit.dumps(document), None


def remove(text: str, package: str) -> tuple[str, str | None]:
    """Return the text without a requirement of that name, and the line that went, or None when there was none."""
    document = tomlkit.parse(text)
    wanted = str(canonicalize_name(package))
    listed = document.get("requirements")
    if not isinstance(listed, Array):
        return text, None
    for position, line in enumerate(listed):
        if name_of(str(line)) == wanted:
            before = str(line)
            del listed[position]
            return tomlkit.dumps(document), before
    return text, None


def _indent(written: str) -> str:
    for line in written.splitlines()[1:]:
        if line.strip() and not line.strip().startswith("]"):
            return line[: len(line) - len(line.lstrip())]
    return "  "


def _insert_after_scalars(document: tomlkit.TOMLDocument, made: Array) -> None:
    """Put a new list before the first table: after one it would belong to that table."""
    tables = [key for key, value in document.items() if hasattr(value, "items") or isinstance(value, tomlkit.items.AoT)]
    rest = {key: document.pop(key) for key in tables}
    document.add("requirements", made)
    if rest:
        document.add(tomlkit.nl())
    for key, value in rest.items():
        document.add(key, value)


def first_profile(
    *,
    description: str,
    extends: str | None,
    python: str | None,
    requirements: tuple[str, ...],
    torch: str | None,
    cuda: str | None,
    capability: str | None,
    count: int | None,
) -> str:
    """Return a commented first profile."""
    lines = [f"description = {_quoted(description)}"]
    if extends:
        lines.append(f"extends = {_quoted(extends)}          # tables merge, lists append, a scalar replaces")
    if python:
        lines.append(f"python = {_quoted(python)}")
    lines.append("requirements = [")
    lines += [f"  {_quoted(line)}," for line in requirements]
    lines.append("]")
    if torch:
        lines += [
            "",
            "[torch]",
            f"version = {_quoted(torch)}",
            f"cuda = {_quoted(cuda or 'cpu')}            # held against the wheel's metadata, its files, and at launch",
            '# index = "pytorch-cu128"  # where this build comes from, when PyPI serves another one',
        ]
    if capability:
        lines += [
            "",
            "[gpu]",
            f"compute-capability = {_quoted(capability)}",
            f"count = {count or 1}",
            "",
            "[kernels]",
            'require = ["torch"]        # must have code for that GPU',
        ]
    lines += ["", "[env]", '# set = { NAME = "value" }', '# pass = ["HF_*", "NCCL_*"]   # what crosses from the caller']
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
