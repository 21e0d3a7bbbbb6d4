"""What wheels unpack to, from their own directories, which stand at their ends: no wheel is downloaded for it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote, urlsplit

from envlock import disk, system
from envlock.errors import StoreError
from envlock.resolve.answer import File
from envlock.resolve.fetch import PARALLEL, Fetcher, Remote, length


def collect_sizes(
    files: Mapping[str, File], cache: Path, fetcher: Fetcher, *, on_done: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Return name -> bytes its wheel unpacks to, asked for side by side; `cache` is keyed by sha256.

    What is no wheel, or lies on a server without ranges, is left out: not known is no fault of a lock.
    """

    def one(item: tuple[str, File]) -> tuple[str, int | None]:
        name, file = item
        kept = cache / file.artifact.sha256[:2] / file.artifact.sha256
        try:
            size: int | None = int(kept.read_text())
        except (OSError, ValueError):
            size = unpacked_size(fetcher, file)
            if size is not None:
                try:
                    disk.write_atomically(kept, str(size))
                except StoreError:
                    pass  # asked for again next time
        on_done()
        return name, size

    sizes = system.side_by_side(one, files.items(), PARALLEL)
    return {name: size for name, size in sizes if size is not None}


def unpacked_size(fetcher: Fetcher, file: File) -> int | None:
    """Return the bytes of all files in a wheel, as its directory tells them; None when that cannot be read."""
    if not file.artifact.is_wheel or not file.artifact.sha256:
        return None
    try:
        with _opened(fetcher, file) as stream, zipfile.ZipFile(stream) as wheel:
            return sum(member.file_size for member in wheel.infolist())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        return None


def _opened(fetcher: Fetcher, file: File) -> IO[bytes]:
    if file.url.startswith("file:"):
        return Path(unquote(urlsplit(file.url).path)).open("rb")
    if not file.url.startswith("http"):
        return Path(file.url).open("rb")
    size = file.artifact.size
    remote = Remote(fetcher, file.url, length(fetcher, file.url) if size is None else size)
    return cast("IO[bytes]", io.BufferedReader(remote, 1 << 16))
