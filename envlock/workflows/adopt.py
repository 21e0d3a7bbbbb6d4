"""Moving in: any environment -> profile, lock, a generation, and every difference. The old one is only read."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envlock import disk, system
from envlock.environment import store
from envlock.environment.digests import read_regular, sha256_of
from envlock.environment.distributions import Distribution, distributions, site_packages, torch_build
from envlock.environment.inventory import read_inventory
from envlock.errors import EnvironmentMissing, ToolMissing, UsageError
from envlock.layout import Layout, is_profile_name
from envlock.lock.files import load_lock
from envlock.review.adoption import Adopted, Installed, profile_text, understand
from envlock.workflows import lock, sync

_HOST_MADE = re.compile(r"\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_cache\.json)$|\.pyc$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Adoption:
    """What adopting came to."""

    name: str
    adopted: Adopted
    damage: tuple[str, ...]
    """What is wrong with the old environment."""
    generation: str
    differences: tuple[str, ...]
    """Every file that the rebuilt environment has otherwise."""
    indexes: Mapping[str, int]
    """Logical index -> how many packages of the lock come from it; direct references under `none`."""


def adopt(layout: Layout, path: Path, name: str, environ: Mapping[str, str], say: lock.Say) -> Adoption:
    """Read an environment, write a profile and a lock for it, rebuild it beside, and compare the two file by file.

    Raises UsageError (no environment there, a profile of that name), and what locking and syncing raise; the profile
    is taken back when it cannot be locked.
    """
    if not is_profile_name(name):
        raise UsageError(f"{name!r} cannot name a profile", expected="lower-case letters, digits, - and _")
    if layout.profile(name).exists():
        raise UsageError(f"profiles/{name}.toml is there already", hint="choose another name with --as")
    sites, python = _locate(path)
    say(name, f"reading {', '.join(map(str, sites))}")
    there = tuple((site, one) for site in sites for one in distributions(site))
    torch = next((told for site in sites if (told := torch_build(site)) is not None), None)
    build = None if torch is None else (torch.distribution, torch.cuda)
    known = [_installed(site, one) for site, one in there]
    adopted = understand(python, build, tuple(known) + tuple(old for site in sites for old in _old_style(site)))
    damage = tuple(line for site in sites for line in _damage(site, tuple(one for at, one in there if at == site)))
    disk.write_atomically(layout.profile(name), profile_text(adopted, path.name))
    try:
        lock.lock_one(layout, name, lock.Options(), environ, say)
    except BaseException:
        layout.profile(name).unlink()
        raise
    done = sync.sync_one(layout, name, sync.Options(), environ, say)
    return Adoption(
        name=name,
        adopted=adopted,
        damage=damage,
        generation=done.generation,
        differences=_differences(there, layout, name, adopted),
        indexes=_indexes(layout, name),
    )


def _indexes(layout: Layout, name: str) -> dict[str, int]:
    locked, _ = load_lock(layout, name)
    return dict(Counter(package.index or "none" for package in locked.packages))


def _locate(path: Path) -> tuple[tuple[Path, ...], str]:
    """Return (folders of packages, Python minor) of a venv, a conda prefix, or an interpreter.

    A prefix is read from its files alone, so one whose interpreter is gone can be read, too. Raises EnvironmentMissing.
    """
    inside = (path / "bin" / "python3", path / "bin" / "python")
    python = path if path.is_file() else next((one for one in inside if os.path.lexists(one)), None)
    if python is None:
        raise EnvironmentMissing(f"no environment at {path}", hint="name a venv, a conda prefix, or an interpreter")
    try:
        site = site_packages(python.absolute().parent.parent)
    except FileNotFoundError:
        return _asked(python)
    return (site,), site.parent.name.removeprefix("python")


def _asked(python: Path) -> tuple[tuple[Path, ...], str]:
    """Ask an interpreter that is in no prefix of its own (Debian's) where its packages are."""
    program = "import sys; print(*sys.version_info[:2], sep='.'); print(*sys.path, sep='\\n')"
    try:
        told = system.run([python, "-I", "-c", program], timeout=30)
    except (ToolMissing, OSError, system.TimedOut) as error:
        raise EnvironmentMissing(f"{python} does not run", found=str(error)) from error
    version, *folders = told.stdout.splitlines() or [""]
    sites = tuple(
        Path(folder) for folder in folders if folder.endswith(("-packages", "-packages/")) and Path(folder).is_dir()
    )
    if told.returncode != 0 or not sites:
        raise EnvironmentMissing(f"{python} tells no folder of packages", found=told.stderr.strip()[:200])
    return sites, version


def _old_style(site: Path) -> Iterator[Installed]:
    """Yield what has metadata from before PEP 376: nobody can tell its files, so nothing can prove a copy of it."""
    for entry in sorted(os.listdir(site)):
        stem, _, kind = entry.rpartition(".")
        if kind in ("egg-info", "egg-link", "egg"):
            name, _, version = stem.partition("-")
            why = f"has old metadata ({entry}) without a list of its files; add it to the profile if it is wanted"
            yield Installed(
                name=str(canonicalize_name(name)),
                version=version.partition("-")[0] or "0",
                requested=False,
                requires=(),
                origin=why,
            )


def _installed(site: Path, one: Distribution) -> Installed:
    folder = site / one.folder
    try:
        headers = HeaderParser().parsestr(read_regular(folder / "METADATA").decode("utf-8", "replace"))
    except OSError:
        headers = HeaderParser().parsestr("")
    requires = []
    for line in headers.get_all("Requires-Dist", []):
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        if wanted.marker is None or "extra" not in str(wanted.marker):
            requires.append(str(canonicalize_name(wanted.name)))
    url, origin = _direct(folder)
    return Installed(
        name=one.name,
        version=str(headers.get("Version") or one.version),
        requested=(folder / "REQUESTED").is_file() and not _installed_by_uv(folder),
        requires=tuple(requires),
        origin=origin,
        url=url,
    )


def _direct(folder: Path) -> tuple[str, str]:
    """Return (direct reference pinned to bytes, why there can be none) from direct_url.json (PEP 610)."""
    try:
        told = json.loads(read_regular(folder / "direct_url.json"))
        url = str(told["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""
    vcs, archive = told.get("vcs_info") or {}, told.get("archive_info") or {}
    if told.get("dir_info", {}).get("editable"):
        return "", f"comes from an editable install of {url}"
    if vcs.get("vcs") == "git" and vcs.get("commit_id") and "://" in url:
        below = f"#subdirectory={told['subdirectory']}" if told.get("subdirectory") else ""
        return f"git+{url}@{vcs['commit_id']}{below}", ""
    sha256 = archive.get("hashes", {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=")
    if url.startswith(("https://", "http://")) and re.fullmatch(r"[0-9a-f]{64}", sha256):
        return f"{url}#sha256={sha256}", ""
    return "", f"comes from {url}"


def _installed_by_uv(folder: Path) -> bool:
    """Tell whether uv installed a distribution: it writes REQUESTED for dependencies, too, so that tells nothing."""
    try:
        return read_regular(folder / "INSTALLER").strip() == b"uv"
    except OSError:
        return False


def _damage(site: Path, found: tuple[Distribution, ...]) -> tuple[str, ...]:
    """Return what is wrong: leftovers, records that do not hold, files no distribution owns."""
    left = sorted(entry for entry in os.listdir(site) if entry.startswith("~"))
    damage = [f"{entry}: a leftover of an interrupted install" for entry in left]
    owned: dict[str, str] = {}
    for one in found:
        if not one.has_record:
            damage.append(f"{one.name}: no RECORD, so nobody can tell which files are its own")
        for record in one.records:
            path = os.path.normpath(site / record.path)
            if path in owned and owned[path] != one.name and record.sha256:
                damage.append(f"{record.path}: claimed by {owned[path]} and by {one.name}")
            owned[path] = one.name
            if not record.sha256 or record.path.endswith(".pyc"):
                continue
            try:
                if sha256_of(path) != record.sha256:
                    damage.append(f"{record.path}: edited after {one.name} was installed")
            except OSError:
                damage.append(f"{record.path}: missing from {one.name}")
    return (*damage, *_unowned(site, owned))


def _unowned(site: Path, owned: Container[str]) -> Iterator[str]:
    """Yield what no distribution owns: a file by its path, more of them by the folder they lie in."""
    strays: dict[str, list[str]] = {}
    for root, folders, files in os.walk(site):
        folders[:] = [folder for folder in folders if folder != "__pycache__" and not folder.endswith(".egg-info")]
        for file in files:
            path = os.path.join(root, file)
            if path not in owned and not file.endswith((".pyc", ".egg-info", ".egg-link")):
                below = os.path.relpath(path, site)
                strays.setdefault(below.split("/", 1)[0], []).append(below)
    for top, paths in sorted(strays.items()):
        many = len(paths) > 3
        yield from (
            [f"{top}/: {len(paths)} files that no distribution owns"]
            if many
            else (f"{path}: no distribution owns it" for path in paths)
        )


def _differences(
    there: Sequence[tuple[Path, Distribution]], layout: Layout, name: str, adopted: Adopted
) -> tuple[str, ...]:
    """Compare every file of the adopted distributions with the rebuilt environment, by hash."""
    prefix = store.current_prefix(layout, name)
    below = os.path.relpath(site_packages(prefix), prefix)
    rebuilt = read_inventory(prefix)
    names = {one.name for one in (*adopted.direct, *adopted.dependencies)}
    differences = []
    expected = set()
    for site, one in there:
        if one.name not in names:
            continue
        for record in one.records:
            if _HOST_MADE.search(record.path) or record.path.startswith(".."):
                continue
            expected.add(f"{below}/{record.path}")
            entry = rebuilt.get(f"{below}/{record.path}")
            if entry is None:
                differences.append(f"{record.path} ({one.name}): not in the rebuilt environment")
                continue
            try:
                digest = sha256_of(site / record.path)
            except OSError:
                differences.append(f"{record.path} ({one.name}): only in the rebuilt environment")
                continue
            if digest != entry.sha256:
                differences.append(f"{record.path} ({one.name}): other bytes")
    for path, entry in rebuilt.items():
        mine = entry.package in names and path.startswith(f"{below}/")
        if mine and path not in expected and not _HOST_MADE.search(path):
            differences.append(f"{path.removeprefix(below + '/')} ({entry.package}): only in the rebuilt environment")
    return tuple(differences)
