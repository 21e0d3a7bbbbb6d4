"""Logical index names to URLs. A lock says `pypi`; where that is served from is this machine's business."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from envlock.declare.profile import PYPI, Profile
from envlock.errors import Fault, FileError


class IndexMap:
    """Where each logical index is on this machine; `pypi` absent means uv's own default."""

    __slots__ = ("_urls",)

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = dict(urls)

    def url(self, name: str, declared: str | None = None) -> str | None:
        """Return the URL of a logical index: mapped, else as declared, else None (uv's default)."""
        return self._urls.get(name, declared)

    def for_profile(self, profile: Profile) -> dict[str, str]:
        """Return name -> URL of the profile's indexes; `pypi` only when something names a URL for it."""
        urls: dict[str, str] = {}
        for name, declared in [(PYPI, None), *((index.name, index.url) for index in profile.indexes)]:
            url = self.url(name, declared)
            if url is not None:
                urls[name] = url
        return urls


def variable(name: str) -> str:
    """Return the environment variable that maps a logical index, `ENVLOCK_INDEX_PYTORCH_CU128_URL`."""
    return f"ENVLOCK_INDEX_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_URL"


def configuration_file(environ: Mapping[str, str]) -> Path:
    """Return the user's configuration file, `~/.config/envlock/config.toml` unless XDG_CONFIG_HOME moves it."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
    return Path(base) / "envlock" / "config.toml"


def load_index_map(names: tuple[str, ...], environ: Mapping[str, str]) -> IndexMap:
    """Return this machine's map for these logical names: variables first, then `[index]` of the configuration file.

    Raises FileError when the configuration is malformed.
    """
    path = configuration_file(environ)
    urls: dict[str, str] = {}
    try:
        table = tomllib.loads(path.read_text()).get("index", {})
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        table = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(str(path), [Fault("", f"not TOML: {error}")]) from error
    for name, url in table.items() if isinstance(table, Mapping) else ():
        if not isinstance(url, str):
            raise FileError(str(path), [Fault(f"index.{name}", "must be a URL in quotes", found=repr(url))])
        urls[name] = url
    for name in names:
        url = environ.get(variable(name))
        if url:
            urls[name] = url
    return IndexMap(urls)


def without_credentials(url: str) -> str:
    """Return a URL as it may be shown or compared: no user, no password, no trailing slash."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.port:
        host = f"{host}:{parts.port}"
    return urlunsplit((parts.scheme, host, parts.path, parts.query, "")).rstrip("/")


def credentials(url: str) -> tuple[str, str] | None:
    """Return user and password of a URL, decoded, or None."""
    parts = urlsplit(url)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
