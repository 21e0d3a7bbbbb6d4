"""Where things lie: the user's tree and the store, as pure path arithmetic. This module touches no disk."""

from __future__ import annotations

import re
from pathlib import Path

# uv refuses dots in pylock names, and a dot or a slash would let two names share a file (../shared: style 3.13).
PROFILE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


def is_profile_name(name: str) -> bool:
    """Tell whether `name` can name a profile: lower-case letters, digits, `-` and `_`, at most 64, no path."""
    return PROFILE_NAME.fullmatch(name) is not None


class Layout:
    """The paths of one project and its store.

    `project` holds profiles/, locks/ and container/; `home` is the store, `.envlock` unless ENVLOCK_HOME moved it.
    """

    __slots__ = ("home", "project")

    def __init__(self, project: Path, home: Path | None = None) -> None:
        self.project = project
        self.home = home if home is not None else project / ".envlock"

    @property
    def profiles(self) -> Path:
        """The folder of profile files."""
        return self.project / "profiles"

    @property
    def locks(self) -> Path:
        """The folder of lock files."""
        return self.project / "locks"

    @property
    def containers(self) -> Path:
        """The folder of container declarations."""
        return self.project / "container"

    def profile(self, name: str) -> Path:
        """Return the file that declares profile `name`."""
        return self.profiles / f"{name}.toml"

    def lock(self, name: str) -> Path:
        """Return the lock file of profile `name`."""
        return self.locks / f"{name}.toml"

    def container(self, name: str) -> Path:
        """Return the file that declares container `name`."""
        return self.containers / f"{name}.toml"

    def environments(self, name: str) -> Path:
        """Return the folder that holds every generation of profile `name`."""
        return self.home / "envs" / name

    def generation(self, name: str, generation: str) -> Path:
        """Return the venv of one generation; `seal/` inside it holds the seal."""
        return self.environments(name) / generation

    def current(self, name: str) -> Path:
        """Return the symbolic link to the current generation."""
        return self.environments(name) / "current"

    def history(self, name: str) -> Path:
        """Return the journal of profile `name`: one JSON object a line, appended only."""
        return self.environments(name) / "history.jsonl"

    def attestations(self, name: str) -> Path:
        """Return the folder of attestations of profile `name`, one file a generation."""
        return self.environments(name) / "attestations"

    def building(self, name: str) -> Path:
        """Return the file whose kernel lock is held while profile `name` is being changed."""
        return self.environments(name) / ".building"

    def shim(self, name: str) -> Path:
        """Return the launch shim of profile `name`."""
        return self.home / "bin" / name

    @property
    def cache(self) -> Path:
        """The folder of caches that can be deleted at any time: byte code, digests, wheel metadata."""
        return self.home / "cache"

    @property
    def launches(self) -> Path:
        """The journal of launches over all profiles."""
        return self.home / "launches.jsonl"
