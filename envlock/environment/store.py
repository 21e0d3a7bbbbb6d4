"""Generations on disk: which there are, which is current, what their seals say, and what happened when."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from envlock import disk
from envlock.environment import generations as plain
from envlock.environment import seal as seals
from envlock.environment.digests import sha256_of
from envlock.environment.seal import Seal
from envlock.errors import EnvironmentMissing, StoreError
from envlock.layout import Layout


def generations(layout: Layout, name: str) -> tuple[str, ...]:
    """Return the sealed generations of a profile, oldest first."""
    return plain.listed(str(layout.environments(name)))


def next_generation(layout: Layout, name: str, lock_digest: str) -> str:
    """Return the id of the generation to build: never one that was used before, in this store or in its history."""
    used = [0]
    folder = layout.environments(name)
    if folder.is_dir():
        used += [plain.number(entry) for entry in os.listdir(folder) if plain.is_name(entry)]
    used += [plain.number(str(event["generation"])) for event in read_history(layout, name) if event.get("generation")]
    return f"{max(used) + 1:04d}-{lock_digest[:8]}"


def is_sealed(prefix: Path) -> bool:
    """Tell whether a prefix carries a seal: only then is it an environment."""
    return (prefix / seals.FOLDER / "seal.json").is_file()


def current_generation(layout: Layout, name: str) -> str | None:
    """Return the generation `current` points at, or None when there is none (or it lost its seal)."""
    return plain.current(str(layout.environments(name)))


def current_prefix(layout: Layout, name: str) -> Path:
    """Return the prefix of the current generation. Raises EnvironmentMissing."""
    generation = current_generation(layout, name)
    if generation is None:
        raise EnvironmentMissing(
            f"profile {name} has no environment here",
            where=str(layout.environments(name)),
            hint=f"envlock sync {name}",
        )
    return layout.generation(name, generation)


def read_seal(prefix: Path) -> Seal:
    """Return the seal of a generation. Raises StoreError when it has none, or one that cannot be read."""
    path = prefix / seals.FOLDER / "seal.json"
    try:
        return seals.load(path.read_text())
    except FileNotFoundError as error:
        raise StoreError(
            "not an environment of envlock: it has no seal", where=str(prefix), hint="envlock sync"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "the seal cannot be read", where=str(path), found=str(error), hint="envlock sync --rebuild"
        ) from error


def edited_files(seal: Seal, prefix: Path, *, deep: bool) -> tuple[str, ...]:
    """Return which of a seal's own files are gone or not as they were written; the long lists with `deep` only."""
    return tuple(
        name
        for name, digest in seal.digests.items()
        if (deep or name not in seals.LISTS) and _digest(prefix / seals.FOLDER / name) != digest
    )


def _digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError:
        return ""


def lies_where_built(seal: Seal, prefix: Path) -> bool:
    """Tell whether a generation is at the path it was built at, maybe reached through a link: only there it works."""
    try:
        return seal.prefix == str(prefix) or os.path.samefile(seal.prefix, prefix)
    except OSError:
        return False


def point_current(layout: Layout, name: str, generation: str) -> None:
    """Make a sealed generation the current one, by rename. Raises StoreError when it is not sealed."""
    prefix = layout.generation(name, generation)
    if not is_sealed(prefix):
        raise StoreError(f"{generation} is no sealed generation of {name}", where=str(prefix))
    disk.point(layout.current(name), generation)


def unsealed(layout: Layout, name: str) -> tuple[Path, ...]:
    """Return what a killed sync left behind: generation folders without a seal, and half-removed ones."""
    folder = layout.environments(name)
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    left = [item for item in names if plain.is_name(item) and not is_sealed(folder / item)]
    left += [item for item in names if item.endswith(".trash")]
    return tuple(folder / item for item in sorted(left))


def read_history(layout: Layout, name: str) -> tuple[dict[str, object], ...]:
    """Return the events of a profile's journal, oldest first; a line cut short by a crash is left out."""
    try:
        lines = layout.history(name).read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return tuple(events)


def append_history(layout: Layout, name: str, event: Mapping[str, str | None]) -> None:
    """Add one event to a profile's journal (one write, appended: two writers cannot mix their lines)."""
    disk.append_line(layout.history(name), plain.line(event))
