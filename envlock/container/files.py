"""The declarations on disk: which there are, and reading one."""

from __future__ import annotations

import difflib

from envlock.container.declaration import Container
from envlock.container.reader import read_container
from envlock.errors import UsageError
from envlock.layout import Layout, is_profile_name


def container_names(layout: Layout) -> tuple[str, ...]:
    """Return the names of the declared containers, sorted."""
    return tuple(sorted(path.stem for path in layout.containers.glob("*.toml")))


def load_container(layout: Layout, name: str) -> Container:
    """Return the container declared in container/NAME.toml. Raises UsageError when there is none of that name."""
    file = layout.container(name)
    shown = f"{layout.containers.name}/{name}.toml"
    if not is_profile_name(name) or not file.is_file():
        names = container_names(layout)
        close = difflib.get_close_matches(name, names, n=1)
        raise UsageError(
            f"no container {name!r} is declared",
            where=shown,
            found=", ".join(names) or "no declaration at all",
            hint=f"did you mean {close[0]!r}?" if close else f"write {shown}",
        )
    return read_container(name, file.read_text(encoding="utf-8"), shown)
