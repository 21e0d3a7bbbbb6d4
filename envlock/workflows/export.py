"""Exporting a lock; a format that wants URLs has them looked up where the indexes are for this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from envlock.declare.files import load_profile
from envlock.errors import IndexFault
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.lock.files import load_lock
from envlock.resolve import uv
from envlock.resolve.answer import read_offers
from envlock.resolve.indexes import load_index_map
from envlock.resolve.request import build_request
from envlock.review.exports import FORMATS, NEEDS_URLS


def export(layout: Layout, name: str, form: str, environ: Mapping[str, str]) -> str:
    """Return a profile's lock in another format. Raises LockError, IndexFault (a file is no longer served)."""
    lock, _ = load_lock(layout, name)
    urls = locate(layout, lock, environ) if form in NEEDS_URLS else {}
    return FORMATS[form](lock, urls)


def locate(layout: Layout, lock: Lock, environ: Mapping[str, str]) -> dict[str, str]:
    """Return file name -> URL for every artifact, held against its sha256."""
    profile = load_profile(layout, lock.profile)
    names = ("pypi", *(index.name for index in profile.indexes))
    urls = load_index_map(names, environ).for_profile(profile)
    versions = {package.name: package.version for package in lock.packages if package.direct is None}
    request = build_request(profile, urls, project_root=str(layout.project), pins=versions)
    with tempfile.TemporaryDirectory(prefix="envlock-export-") as folder:
        offers = read_offers(uv.compile_request(request, Path(folder), environ=environ, pylock=True))
    found: dict[str, str] = {}
    for package in lock.packages:
        offer = offers.get(package.name)
        files = [] if offer is None else [*offer.wheels, *([offer.sdist] if offer.sdist else [])]
        by_hash = {file.artifact.sha256: file.url for file in files}
        for artifact in package.artifacts:
            if package.direct is None and artifact.sha256 not in by_hash:
                raise IndexFault(
                    f"index {package.index} no longer serves {artifact.file} with the locked hash",
                    expected=f"sha256 {artifact.sha256}",
                    hint=f"envlock lock {lock.profile}, or map the index to a mirror that kept it",
                )
            found[artifact.file] = by_hash.get(artifact.sha256, "")
    return found
