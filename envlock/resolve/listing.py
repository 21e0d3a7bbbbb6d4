"""What an index says of a project's files now: each file's hash, and whether it was withdrawn (PEP 503, 592, 691)."""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from envlock.errors import IndexFault
from envlock.resolve.fetch import Fetcher
from envlock.resolve.indexes import without_credentials

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One file of an index's page."""

    sha256: str
    """Empty when the index does not tell."""
    yanked: str | None
    """Why it was withdrawn, maybe empty; None: it was not."""


def listing(fetcher: Fetcher, index_url: str, index: str, project: str) -> dict[str, Listed]:
    """Return file name -> what the index says of it; nothing at all for a project it does not know.

    Raises IndexFault when the index cannot be asked or answers with something else.
    """
    url = f"{without_credentials(index_url)}/{project}/"  # the fetcher knows the login; a URL lands in messages
    if url.startswith("file:"):
        url += "index.html"
    for left in reversed(range(_TRIES)):
        try:
            with fetcher.open(url, {"Accept": _ACCEPT}) as answer:
                kind = str(answer.headers.get("Content-Type", ""))  # type: ignore[attr-defined]
                return read_page(answer.read(), kind)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            if left and error.code in (429, 500, 502, 503, 504):
                time.sleep(0.3)
                continue
            raise _fault(index, f"HTTP status {error.code}") from error
        except (urllib.error.URLError, OSError) as error:
            if not left:
                raise _fault(index, str(getattr(error, "reason", error))) from error
            time.sleep(0.3)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _fault(index, f"its page of {project} is neither JSON nor HTML of the simple API: {error}") from error
    raise AssertionError("the last try returns or raises")


def _fault(index: str, found: str) -> IndexFault:
    return IndexFault(f"index {index} could not be asked", found=found, hint="check the network, then run this again")


def read_page(content: bytes, kind: str) -> dict[str, Listed]:
    """Return the files of a page in either form. Raises ValueError, KeyError, TypeError, AttributeError."""
    if "json" in kind:
        return {str(file["filename"]): _from_json(file) for file in json.loads(content)["files"]}
    page = _Page()
    page.feed(content.decode("utf-8", "replace"))
    return page.files


def _from_json(file: Mapping[str, object]) -> Listed:
    hashes, yanked = file.get("hashes"), file.get("yanked", False)
    sha256 = hashes.get("sha256", "") if isinstance(hashes, Mapping) else ""
    reason = None if yanked is False or yanked is None else yanked if isinstance(yanked, str) else ""
    return Listed(sha256=str(sha256), yanked=reason)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, Listed] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        href = told.get("href")
        if tag != "a" or not href:
            return
        parts = urlsplit(href)
        name, value = parts.fragment.partition("=")[::2]
        yanked = (told["data-yanked"] or "") if "data-yanked" in told else None
        file = unquote(parts.path.rsplit("/", 1)[-1])
        self.files[file] = Listed(sha256=value if name == "sha256" else "", yanked=yanked)
