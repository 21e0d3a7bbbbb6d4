"""`envlock sync` and `envlock lock` with nothing to do, told from a few file identities before anything is imported.

After a run that left everything as it should be, `cache/unchanged/VERB/NAMES` keeps what it looked at: inode, size and
mtime of the profiles, the locks, the seals, the interpreters and the shims, where each `current` points, and what was
said. While all of that is the same there is nothing to do; anything else, and any option, takes the full way. It can be
deleted at any time. Standard library only.
"""

from __future__ import annotations

import marshal
import os
import sys

from envlock.launch.ticket import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

FORMAT = 1
VERBS = ("sync", "lock")


def attempt(words: Sequence[str], found: tuple[str, str] | None) -> bool:
    """Tell what an earlier run said and return True, if these words ask for nothing that is not done already."""
    if not words or words[0] not in VERBS or found is None or any(word.startswith("-") for word in words[1:]):
        return False
    project, home = found
    known = kept(home, words[0], words[1:])
    if known is None or not holds(known, project):
        return False
    sys.stderr.write(known["said"])
    return True


def kept(home: str, verb: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Return what an earlier run kept, or None when there is nothing that this envlock can read."""
    try:
        with open(_path(home, verb, names), "rb") as file:
            found = marshal.loads(file.read())  # noqa: S302 - from our own store
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def holds(known: Mapping[str, Any], project: str) -> bool:
    """Tell whether every file and link is as it was kept."""
    if known.get("project") != project or any(identity(path) != one for path, one in known["files"].items()):
        return False
    for link, target in known["links"].items():
        try:
            if os.readlink(link) != target:
                return False
        except OSError:
            return False
    return True


def remember(
    home: str, verb: str, names: Sequence[str], *, project: str, files: Iterable[str], links: Iterable[str], said: str
) -> None:
    """Keep what a run looked at; a store that cannot be written is left as it is. `names` as they were typed."""
    known: Mapping[str, object] = {path: identity(path) for path in files}
    try:
        targets = {link: os.readlink(link) for link in links}
    except OSError:
        return
    keep(home, verb, names, {"project": project, "files": known, "links": targets, "said": said})


def keep(home: str, verb: str, names: Sequence[str], data: Mapping[str, Any]) -> None:
    """Keep what `kept` will return; a store that cannot be written is left as it is."""
    try:
        path = _path(home, verb, names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        beside = f"{path}.{os.getpid()}.part"
        with open(beside, "wb") as file:
            file.write(marshal.dumps({**data, "format": FORMAT}, 4))
        os.replace(beside, path)
    except OSError:
        return


def _path(home: str, verb: str, names: Sequence[str]) -> str:
    return f"{home}/cache/unchanged/{verb}/{'+'.join(names).replace('/', '%') or '_all'}"
