"""A wheel's own METADATA, without downloading the wheel when the index allows it.

Three ways, in this order: the index's `.metadata` file (PEP 658), the end of the wheel by HTTP range requests, the
whole wheel. All give the same bytes, so a lock does not depend on which way was open. Kept by the wheel's sha256.
"""

from __future__ import annotations

import io
import tarfile
import urllib.error
import zipfile
from collections.abc import Callable, Mapping
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import IO, cast

from envlock import disk, system
from envlock.errors import IndexFault
from envlock.resolve.answer import File
from envlock.resolve.fetch import PARALLEL, Fetcher, Remote


def metadata_of(fetcher: Fetcher, file: File) -> str:
    """Return the core metadata of a wheel or source distribution. Raises IndexFault."""
    try:
        if not file.artifact.is_wheel:
            return _from_sdist(fetcher.read(file.url), file.artifact.file)
        for way in (_from_metadata_file, _from_ranges):
            try:
                return way(fetcher, file)
            except (urllib.error.HTTPError, OSError, zipfile.BadZipFile, KeyError):
                continue
        return _from_wheel(io.BytesIO(fetcher.read(file.url)))
    except (OSError, zipfile.BadZipFile, KeyError, tarfile.TarError) as error:
        raise IndexFault(
            f"the metadata of {file.artifact.file} cannot be read",
            found=str(error),
            expected="the file that the index lists",
            hint="run this again; if it stays, the index lists a file that it does not serve",
        ) from error


def _from_metadata_file(fetcher: Fetcher, file: File) -> str:
    text = fetcher.read(f"{file.url}.metadata").decode("utf-8", "replace")
    if not text.startswith("Metadata-Version:"):
        raise KeyError("no metadata there")
    return text


def _from_ranges(fetcher: Fetcher, file: File) -> str:
    if file.artifact.size is None or not file.url.startswith("http"):
        raise KeyError("size unknown")
    return _from_wheel(cast("IO[bytes]", io.BufferedReader(Remote(fetcher, file.url, file.artifact.size), 1 << 16)))


def _from_wheel(stream: IO[bytes]) -> str:
    with zipfile.ZipFile(stream) as wheel:
        for name in wheel.namelist():
            folder, _, rest = name.partition("/")
            if rest == "METADATA" and folder.endswith(".dist-info"):
                return wheel.read(name).decode("utf-8", "replace")
    raise KeyError("no METADATA in the wheel")


def _from_sdist(content: bytes, file: str) -> str:
    if file.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            name = min((n for n in archive.namelist() if n.endswith("/PKG-INFO")), key=len)
            return archive.read(name).decode("utf-8", "replace")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        name = min((n for n in tar.getnames() if n.endswith("/PKG-INFO") and n.count("/") == 1), key=len)
        member = tar.extractfile(name)
        assert member is not None
        return member.read().decode("utf-8", "replace")


def collect(
    files: Mapping[str, File],
    cache: Path,
    fetcher: Fetcher,
    *,
    on_done: Callable[[str], None] | None = None,
) -> dict[str, Message]:
    """Return name -> metadata headers of the files, fetched side by side; `cache` is keyed by sha256.

    Raises IndexFault for the first that cannot be had.
    """

    def one(item: tuple[str, File]) -> tuple[str, Message]:
        name, file = item
        kept = cache / file.artifact.sha256[:2] / file.artifact.sha256
        try:
            text = kept.read_text()
        except OSError:
            text = metadata_of(fetcher, file)
            disk.write_atomically(kept, text)
        if on_done is not None:
            on_done(name)
        return name, HeaderParser().parsestr(text)

    return dict(system.side_by_side(one, files.items(), PARALLEL))
