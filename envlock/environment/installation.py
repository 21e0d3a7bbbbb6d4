"""From a lock to installed files: exactly the locked artifacts, by hash, each from its own index."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from envlock import system
from envlock.declare.profile import PYPI
from envlock.errors import IndexFault, RealiseError
from envlock.lock.document import Lock, Package
from envlock.resolve import uv
from envlock.resolve.builds import settings
from envlock.resolve.request import located

_DOWNLOADED = re.compile(r"^\s*(?:Downloaded|Built) (\S+)")


def groups(packages: Sequence[Package]) -> dict[str, list[Package]]:
    """Return logical index -> its packages; direct references under an empty name.

    One uv call a group: a package can then only come from the index that the lock names for it.
    """
    found: dict[str, list[Package]] = {}
    for package in packages:
        found.setdefault(package.index, []).append(package)
    return found


def requirement_line(package: Package, project_root: str) -> str:
    """Return the line that lets uv install this artifact and no other."""
    hashes = " ".join(f"--hash=sha256:{artifact.sha256}" for artifact in package.artifacts)
    if package.direct is None:
        return f"{package.name}=={package.version} {hashes}"
    direct = package.direct
    if direct.kind == "git":
        below = f"#subdirectory={direct.subdirectory}" if direct.subdirectory else ""
        return f"{package.name} @ git+{direct.location}@{direct.revision}{below}"
    location = located(direct.location, project_root)
    return f"{package.name} @ {location} {hashes}".rstrip()


def install_lock(
    prefix: Path,
    lock: Lock,
    packages: Sequence[Package],
    urls: Mapping[str, str],
    *,
    project_root: Path,
    links: str,
    offline: bool,
    environ: Mapping[str, str],
    fresh: Sequence[str] = (),
    on_step: Callable[[str], None] = lambda _: None,
) -> None:
    """Install packages of a lock into an empty prefix; `fresh` names are fetched again and reinstalled.

    First from the cache alone, which needs no network at all; only what that lacks is fetched.
    Raises IndexFault (down, vanished file, another hash), RealiseError (disk full, a build failed).
    """
    sizes = {package.name: sum(item.size or 0 for item in package.artifacts) for package in packages}
    progress = _Progress(sizes, on_step)
    with tempfile.TemporaryDirectory(prefix="envlock-sync-") as temporary:
        config = Path(temporary) / "uv.toml"
        config.write_text(settings(lock.inputs.get("build")))
        for index, members in groups(packages).items():
            unhashed = [package for package in members if not package.artifacts]
            for hashed, some in ((True, [p for p in members if p.artifacts]), (False, unhashed)):
                if not some:
                    continue
                path = Path(temporary) / "requirements.txt"
                path.write_text("".join(f"{requirement_line(package, str(project_root))}\n" for package in some))
                again = [name for name in fresh if any(package.name == name for package in some)]
                _install_group(
                    prefix,
                    path,
                    index_url=urls.get(index or PYPI),
                    index=index or "its own URL",
                    hashed=hashed,
                    config=config,
                    links=links,
                    offline=offline,
                    environ=environ,
                    again=again,
                    isolated_not=_without_isolation(lock, some),
                    progress=progress,
                )


def _without_isolation(lock: Lock, packages: Sequence[Package]) -> list[str]:
    builds = lock.inputs.get("build", {})
    if not isinstance(builds, Mapping):
        return []
    return [
        p.name
        for p in packages
        if isinstance(builds.get(p.name), Mapping) and not builds[p.name].get("isolation", True)
    ]


def _install_group(
    prefix: Path,
    requirements: Path,
    *,
    index_url: str | None,
    index: str,
    hashed: bool,
    config: Path,
    links: str,
    offline: bool,
    environ: Mapping[str, str],
    again: Sequence[str],
    isolated_not: Sequence[str],
    progress: _Progress,
) -> None:
    tries = [True] if offline else [False] if again else [True, False]
    for without_network in tries:
        done = uv.install(
            prefix,
            requirements,
            environ=environ,
            index_url=index_url,
            offline=without_network,
            link_mode=links,
            require_hashes=hashed,
            config=config,
            no_build_isolation=isolated_not,
            reinstall=again,
            refresh=again,
            on_line=progress.line,
        )
        if done.returncode == 0:
            return
    raise explained(done, index=index, offline=offline)


def explained(done: system.Completed, *, index: str, offline: bool) -> IndexFault | RealiseError:
    """Return uv's failure to install as an error that says whose fault it was and what to do."""
    words, details = done.stderr, uv.shortened(done.stderr)
    lowered = words.lower()
    if "no space left" in lowered:
        return RealiseError(
            "the disk is full",
            found="No space left on device",
            hint="envlock gc, or free some space; the environment before this one is untouched",
            details=details,
        )
    if "hash mismatch" in lowered or ("hashes" in lowered and "mismatch" in lowered):
        return IndexFault(
            f"index {index} serves a file with another hash than the lock's",
            expected=_after(words, "Expected:"),
            found=_after(words, "Computed:"),
            hint="do not install it; find out who changed that file, then `envlock lock --upgrade-package NAME`",
            details=details,
        )
    if offline and ("network connectivity is disabled" in lowered or "network was disabled" in lowered):
        return IndexFault(
            "not everything is in the cache, and --offline forbids to fetch it",
            hint="run it once without --offline",
            details=details,
        )
    if "no solution found" in lowered or "was not found" in lowered or "no version of" in lowered:
        return IndexFault(
            f"index {index} no longer has a file that the lock names",
            expected="every locked file, by version and sha256",
            hint="map the index to a mirror that kept it (ENVLOCK_INDEX_<NAME>_URL), or lock again",
            details=details,
        )
    if "failed to build" in lowered or "build backend" in lowered:
        return RealiseError("a package without a wheel could not be built", details=details)
    error = uv.explained(words)
    if isinstance(error, IndexFault):
        return error
    return RealiseError("uv could not install the locked packages", details=details)


def _after(words: str, label: str) -> str | None:
    lines = [line.strip() for line in words.splitlines()]
    for number, line in enumerate(lines):
        if line.startswith(label):
            return line.removeprefix(label).strip() or (lines[number + 1] if number + 1 < len(lines) else None)
    return None


class _Progress:
    """Counts what uv says it has fetched, in packages and bytes."""

    def __init__(self, sizes: Mapping[str, int], on_step: Callable[[str], None]) -> None:
        self._sizes = sizes
        self._tell = on_step
        self._packages = 0
        self._bytes = 0

    def line(self, line: str) -> None:
        """Take one line of uv's stderr."""
        words = line.strip()
        match = _DOWNLOADED.match(words)
        if match:
            self._packages += 1
            self._bytes += self._sizes.get(match[1].lower().replace("_", "-"), 0)
            total = sum(self._sizes.values())
            self._tell(f"fetched {match[1]}: {size(self._bytes)} of at most {size(total)}")
        elif words.startswith(("Downloading ", "Prepared ", "Building ")):
            self._tell(words[0].lower() + words[1:])


def size(count: int) -> str:
    """Return bytes for people: `815 MB`, `3.1 GB` (powers of ten, as disks and indexes count)."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.{1 if unit == 'GB' else 0}f} {unit}"
    return f"{count} B"
