"""Which project and store a command works on: found once, here, before anything is imported."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def locate(project: str | None, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the folder that holds profiles/, at or above the start, and its store; None when there is none.

    The start is `project` (of `-C`), else ENVLOCK_PROJECT, else the working directory; ENVLOCK_HOME moves the store.
    """
    folder = start(project, variables)
    while not os.path.isdir(f"{folder}/profiles"):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    home = variables.get("ENVLOCK_HOME")
    return folder, os.path.abspath(home) if home else f"{folder.rstrip('/')}/.envlock"


def start(project: str | None, variables: Mapping[str, str]) -> str:
    """Return the folder from which the project is looked for."""
    return os.path.abspath(project or variables.get("ENVLOCK_PROJECT") or os.getcwd())


def without_project_option(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Take `-C DIR` or `--project DIR` off the front; anything else in front is left for the command line's parser."""
    if len(words) > 2 and words[0] in ("-C", "--project"):
        return words[1], words[2:]
    if words and words[0].startswith("--project="):
        return words[0].partition("=")[2], words[1:]
    return None, words
