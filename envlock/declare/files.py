"""Profile files on disk."""

from __future__ import annotations

import difflib

from envlock.declare.profile import Profile
from envlock.declare.reader import file_of, parents, read_profile
from envlock.errors import Fault, ProfileError, UsageError
from envlock.layout import Layout, is_profile_name


def profile_names(layout: Layout) -> tuple[str, ...]:
    """Return the names of the profiles in a project, sorted."""
    try:
        files = list(layout.profiles.iterdir())
    except OSError:
        return ()
    return tuple(sorted(path.stem for path in files if path.suffix == ".toml" and is_profile_name(path.stem)))


def load_profile(layout: Layout, name: str) -> Profile:
    """Return the profile of that name with its parents applied.

    Raises UsageError (no such profile, or no name for one), ProfileError (every fault of the file).
    """
    if not is_profile_name(name):
        raise UsageError(
            f"{name!r} cannot name a profile",
            expected="lower-case letters, digits, - and _, at most 64; no path, no dots",
            hint="name one of: " + (", ".join(profile_names(layout)) or "none yet; envlock init NAME"),
        )
    if not layout.profile(name).is_file():
        names = profile_names(layout)
        close = difflib.get_close_matches(name, names, n=1)
        raise UsageError(
            f"there is no profile {name!r}",
            where=str(layout.profiles),
            found=", ".join(names) or "no profiles",
            hint=f"did you mean {close[0]!r}?" if close else f"envlock init {name}",
        )
    return read_profile(name, _texts(layout, name))


def _texts(layout: Layout, name: str) -> dict[str, str]:
    """Return the texts of a profile and everything it extends; what is not there is left for the reader to tell."""
    texts: dict[str, str] = {}
    todo = [name]
    while todo:
        one = todo.pop()
        if one in texts or not is_profile_name(one) or not layout.profile(one).is_file():
            continue
        try:
            texts[one] = layout.profile(one).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(file_of(one), [Fault("", f"cannot be read: {error}")]) from error
        todo += parents(texts[one], one)
    return texts
