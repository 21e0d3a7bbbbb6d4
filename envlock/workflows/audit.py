"""Auditing locks: their packages asked of the advisory service, their files of the indexes, side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from envlock import system
from envlock.declare.files import load_profile
from envlock.declare.profile import PYPI
from envlock.errors import EnvlockError, IndexFault, NotAudited
from envlock.layout import Layout
from envlock.lock.document import Lock
from envlock.lock.files import load_lock
from envlock.resolve import advisories, uv
from envlock.resolve.fetch import PARALLEL, Fetcher
from envlock.resolve.indexes import load_index_map
from envlock.resolve.listing import Listed, listing
from envlock.review.audit import Audit, Unasked, judge_file
from envlock.review.finding import Finding

Say = Callable[[str, str], None]
"""Called with what is asked and how far it is."""
_Page = tuple[str, str, str]
"""URL of an index, its logical name, a project: one page to read."""


def audit(
    layout: Layout, names: Sequence[str], environ: Mapping[str, str], say: Say = lambda _what, _step: None
) -> tuple[Audit, ...]:
    """Audit locks; what several of them hold is asked once. What cannot be asked is told in each, never left out.

    Raises LockError, LockStale (no lock), ProfileError.
    """
    locks = {name: load_lock(layout, name)[0] for name in names}
    urls = {name: _urls(layout, name, lock, environ) for name, lock in locks.items()}
    jobs: list[Callable[[], Any]] = [
        lambda: _vulnerabilities(locks.values(), environ, say),
        lambda: _pages(locks, urls, environ, say),
    ]
    known, pages = system.side_by_side(lambda job: job(), jobs, len(jobs))
    return tuple(_judge(name, lock, urls[name], known, pages) for name, lock in locks.items())


def _urls(layout: Layout, name: str, lock: Lock, environ: Mapping[str, str]) -> dict[str, str]:
    """Return logical index -> URL for the indexes a lock names; one that nothing maps is not in it."""
    profile = load_profile(layout, name)
    used = {package.index for package in lock.packages if package.index}
    urls = load_index_map((PYPI, *(index.name for index in profile.indexes)), environ).for_profile(profile)
    if PYPI in used and PYPI not in urls:
        default = uv.default_index(environ)
        if default:
            urls[PYPI] = default
    return {index: url for index, url in urls.items() if index in used}


def _vulnerabilities(
    locks: Collection[Lock], environ: Mapping[str, str], say: Say
) -> Mapping[advisories.Pair, tuple[advisories.Vulnerability, ...]] | NotAudited:
    pairs = {(p.name, p.version) for lock in locks for p in lock.packages if p.version}
    say("advisories", f"asking about {len(pairs)} packages")
    try:
        return advisories.vulnerabilities(pairs, environ)
    except NotAudited as error:
        return error


def _pages(
    locks: Mapping[str, Lock], urls: Mapping[str, Mapping[str, str]], environ: Mapping[str, str], say: Say
) -> dict[_Page, Mapping[str, Listed] | IndexFault]:
    wanted = sorted(
        {
            (urls[name][package.index], package.index, package.name)
            for name, lock in locks.items()
            for package in lock.packages
            if package.artifacts and package.index in urls[name]
        }
    )
    fetcher = Fetcher({url for url, _, _ in wanted}, environ)
    counting = threading.Lock()
    left = len(wanted)
    down: dict[str, IndexFault] = {}

    def one(page: _Page) -> Mapping[str, Listed] | IndexFault:
        nonlocal left
        url, index, project = page
        try:
            # An index that did not answer once, with all retries, is not waited for two hundred times.
            return down[url] if url in down else listing(fetcher, url, index, project)
        except IndexFault as error:
            down[url] = error
            return error
        finally:
            with counting:
                left -= 1
                say("indexes", f"asking for yanked files, {left} to go")

    if wanted:
        say("indexes", f"asking for yanked files, {left} to go")
    return dict(zip(wanted, system.side_by_side(one, wanted, PARALLEL), strict=True))


def _judge(
    name: str,
    lock: Lock,
    urls: Mapping[str, str],
    known: Mapping[advisories.Pair, tuple[advisories.Vulnerability, ...]] | NotAudited,
    pages: Mapping[_Page, Mapping[str, Listed] | IndexFault],
) -> Audit:
    unasked: dict[tuple[str, str], list[str]] = {}
    found: list[advisories.Vulnerability] = []
    files: list[Finding] = []
    notes: list[str] = []
    for package in lock.packages:
        if not package.version:
            notes.append(f"{package.name} has no version that could be asked about")
        elif isinstance(known, NotAudited):
            unasked.setdefault(("advisories", _reason(known)), []).append(package.name)
        else:
            found += known[package.name, package.version]
        if not package.index or not package.artifacts:
            notes.append(f"{package.name} comes from no index that could withdraw it")
            continue
        if package.index not in urls:
            reason = f"profiles/{name}.toml declares no index {package.index}"
            unasked.setdefault((f"index {package.index}", reason), []).append(package.name)
            continue
        page = pages[urls[package.index], package.index, package.name]
        if isinstance(page, IndexFault):
            unasked.setdefault((f"index {package.index}", _reason(page)), []).append(package.name)
            continue
        judged = (judge_file(package, artifact, page.get(artifact.file)) for artifact in package.artifacts)
        files += [finding for finding in judged if finding is not None]
    return Audit(
        name=name,
        packages=len(lock.packages),
        vulnerabilities=tuple(found),
        files=tuple(files),
        unasked=tuple(
            Unasked(what=what, reason=reason, packages=tuple(packages)) for (what, reason), packages in unasked.items()
        ),
        notes=tuple(notes),
    )


def _reason(error: EnvlockError) -> str:
    return f"{error.message}: {error.found}" if error.found else error.message
