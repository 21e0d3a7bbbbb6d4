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

FORMAT = 1
VERBS = ("sync", "lock")


def attempt(words: Sequence[str], found: tuple[str, str] | None) -> bool:
    """Tell what an earlier run said and return True, if these words ask for nothing that is not done already."""
    if not words or words[0] not in VERBS or found is None or any(word.startswith("-") for word in words[1:]):
        return False
    project, home = found
    try:
        with open(_path(home, words[0], words[1:]), "rb") as file:
            kept = marshal.loads(file.read())  # noqa: S302 - from our own store
    except (OSError, ValueError, EOFError, TypeError):
        return False
    if not isinstance(kept, dict) or kept.get("format") != FORMAT or kept.get("project") != project:
        return False
    if any(identity(path) != known for path, known in kept["files"].items()):
        return False
    for link, target in kept["links"].items():
        try:
            if os.readlink(link) != target:
                return False
        except OSError:
            return False
    sys.stderr.write(kept["said"])
    return True


def remember(
    home: str, verb: str, names: Sequence[str], *, project: str, files: Iterable[str], links: Iterable[str], said: str
) -> None:
    """Keep what a run looked at; a store that cannot be written is left as it is. `names` as they were typed."""
    known: Mapping[str, object] = {path: identity(path) for path in files}
    try:
        kept = {
            "format": FORMAT,
            "project": project,
            "files": known,
            "links": {link: os.readlink(link) for link in links},
            "said": said,
        }
        path = _path(home, verb, names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        beside = f"{path}.{os.getpid()}.part"
        with open(beside, "wb") as file:
            file.write(marshal.dumps(kept, 4))
        os.replace(beside, path)
    except OSError:
        return


def _path(home: str, verb: str, names: Sequence[str]) -> str:
    return f"{home}/cache/unchanged/{verb}/{'+'.join(names).replace('/', '%') or '_all'}"
