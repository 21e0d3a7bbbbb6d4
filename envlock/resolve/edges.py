"""Who requires whom on the target platform, from the packages' own metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envlock.declare.profile import Profile
from envlock.resolve.answer import Pinned
from envlock.resolve.request import direct_requirements
from envlock.resolve.target import marker_environment


def requirement_edges(
    profile: Profile, metadata: Mapping[str, Message], pinned: Mapping[str, Pinned], *, names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return name -> its requirements that hold on the target, for the extras that are really asked for.

    `names` is what was resolved; a requirement on anything else (excluded, overridden away) is no edge. A package
    without metadata (a git revision) gets its edges from uv's annotations, names only.
    """
    environment = {str(key): str(held) for key, held in marker_environment(profile).items()}
    requires = {name: _requirements(headers) for name, headers in metadata.items()}
    extras: dict[str, set[str]] = {name: set() for name in names}
    for line in (*direct_requirements(profile), *profile.overrides):
        asked = Requirement(line.split("#")[0].strip())
        if _name(asked) in extras:
            extras[_name(asked)] |= _extras(asked)
    changed = True
    while changed:  # an extra can ask for a package with an extra; each round adds at least one, so it ends
        changed = False
        for name, wanted_list in requires.items():
            for wanted in wanted_list:
                target = _name(wanted)
                if target in extras and _holds(wanted, environment, extras[name]) and _extras(wanted) - extras[target]:
                    extras[target] |= _extras(wanted)
                    changed = True
    edges: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in requires:
            found = {
                _plain(wanted)
                for wanted in requires[name]
                if _name(wanted) in extras and _holds(wanted, environment, extras[name])
            }
        else:
            found = {other for other, pin in pinned.items() if name in pin.asked_by}
        edges[name] = tuple(sorted(found))
    return edges


def _name(wanted: Requirement) -> str:
    return str(canonicalize_name(wanted.name))


def _extras(wanted: Requirement) -> set[str]:
    return {str(canonicalize_name(extra)) for extra in wanted.extras}


def _requirements(headers: Message) -> list[Requirement]:
    found = []
    for line in headers.get_all("Requires-Dist", []):
        try:
            found.append(Requirement(line))
        except InvalidRequirement:
            continue  # uv resolved without it; a broken line of somebody's metadata is not ours to judge
    return found


def _holds(wanted: Requirement, environment: Mapping[str, str], extras: set[str]) -> bool:
    if wanted.marker is None:
        return True
    return any(wanted.marker.evaluate({**environment, "extra": extra}) for extra in ("", *sorted(extras)))


def _plain(wanted: Requirement) -> str:
    extras = f"[{','.join(sorted(_extras(wanted)))}]" if wanted.extras else ""
    specifier = ",".join(sorted(str(spec) for spec in wanted.specifier))
    return f"{_name(wanted)}{extras}{specifier}"


def license_of(headers: Message) -> str:
    """Return a package's licence in a few words: the SPDX expression, else the short field, else the classifiers."""
    expression = headers.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        line.rsplit("::", 1)[-1].strip() for line in headers.get_all("Classifier", []) if line.startswith("License ::")
    ]
    named = [name for name in classifiers if name != "OSI Approved"]
    if named:
        return ", ".join(sorted(named))
    field = str(headers.get("License") or "").strip()
    return field if field and "\n" not in field and len(field) <= 80 else ""
