"""Fetching from the indexes of a lock: credentials to the host they are for, and files by ranges."""

from __future__ import annotations

import base64
import io
import ssl
import urllib.request
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import urlsplit

from envlock import __version__
from envlock.resolve.indexes import credentials
from envlock.resolve.uv import http_timeout

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TIMEOUT = 60.0  # seconds without a byte, unless ENVLOCK_HTTP_TIMEOUT says otherwise
_TAIL = 1 << 16  # bytes of a file's end that are fetched in one go
PARALLEL = 16
"""Requests at the same time."""


class Fetcher:
    """Fetches from the indexes of one lock; credentials go only to the host they were given for."""

    def __init__(self, index_urls: Iterable[str], environ: Mapping[str, str]) -> None:
        self._logins: dict[str, tuple[str, str]] = {}
        for url in index_urls:
            login = credentials(url)
            if login is not None:
                self._logins[_host(url)] = login
        context = ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE") or None)
        self._timeout = http_timeout(environ) or _TIMEOUT
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def open(self, url: str, headers: Mapping[str, str] | None = None) -> IO[bytes]:
        """Open a URL. Raises urllib.error.URLError (HTTPError for a status), OSError."""
        agent = {"User-Agent": f"envlock/{__version__}", **(headers or {})}
        request = urllib.request.Request(url, headers=agent)  # noqa: S310 file: is a legitimate index
        login = self._logins.get(_host(url))
        if login is not None:
            token = base64.b64encode(":".join(login).encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        return cast("IO[bytes]", self._opener.open(request, timeout=self._timeout))

    def read(self, url: str) -> bytes:
        """Return what a URL serves. Raises as `open`."""
        with self.open(url) as answer:
            return answer.read()


def length(fetcher: Fetcher, url: str) -> int:
    """Return the bytes of a file whose index does not tell them. Raises OSError where the server does not either."""
    with fetcher.open(url, {"Range": "bytes=0-0"}) as answer:
        told = str(answer.headers.get("Content-Range", ""))  # type: ignore[attr-defined]
        total = told.rpartition("/")[2]
        if answer.status != 206 or not total.isdecimal():  # type: ignore[attr-defined]
            raise OSError("the server does not serve ranges")
        return int(total)


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or ''}"


class Remote(io.RawIOBase):
    """A file on a web server, read by ranges; `zipfile` reads a wheel's directory through it.

    Raises OSError where the server serves no ranges.
    """

    def __init__(self, fetcher: Fetcher, url: str, size: int) -> None:
        self._fetcher, self._url, self._size, self._at = fetcher, url, size, 0
        self._tail = b""

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        tail = max(0, self._size - _TAIL)
        if self._at >= tail and not self._tail:
            self._tail = self._range(tail, self._size)  # a wheel's directory is at its end: mostly one request
        data = self._tail[self._at - tail : end - tail] if self._at >= tail else self._range(self._at, end)
        view[: len(data)] = data
        self._at = end
        return len(data)

    def _range(self, start: int, end: int) -> bytes:
        with self._fetcher.open(self._url, {"Range": f"bytes={start}-{end - 1}"}) as answer:
            if answer.status != 206:  # type: ignore[attr-defined]
                raise OSError("the server does not serve ranges")
            data = answer.read()
        if len(data) != end - start:
            raise OSError("the server does not serve ranges")
        return data
