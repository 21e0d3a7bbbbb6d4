"""Moving in: any environment -> profile, lock, a generation, and every difference. The old one is only read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envlock import disk, system
from envlock.environment import interpreter, store
from envlock.environment.digests import sha256_of
from envlock.environment.distributions import Distribution, distributions, site_packages, torch_build
from envlock.environment.inventory import read_inventory
from envlock.errors import EnvironmentMissing, UsageError
from envlock.layout import Layout, is_profile_name
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


def adopt(layout: Layout, path: Path, name: str, environ: Mapping[str, str], say: lock.Say) -> Adoption:
    """Read an environment, write a profile and a lock for it, rebuild it beside, and compare the two file by file.

    Raises UsageError (no environment there, a profile of that name), and what locking and syncing raise; the profile
    is taken back when it cannot be locked.
    """
    if not is_profile_name(name):
        raise UsageError(f"{name!r} cannot name a profile", expected="lower-case letters, digits, - and _")
    if layout.profile(name).exists():
        raise UsageError(f"profiles/{name}.toml is there already", hint="choose another name with --as")
    site, python = _locate(path)
    say(name, f"reading {site}")
    found = tuple(distributions(site))
    torch = torch_build(site)
    build = None if torch is None else (torch.distribution, torch.cuda)
    adopted = understand(python, build, tuple(_installed(site, one) for one in found))
    damage = _damage(site, found)
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
        differences=_differences(site, found, layout, name, adopted),
    )


def _locate(path: Path) -> tuple[Path, str]:
    """Return (site-packages, Python minor) of a venv, a conda prefix, or an interpreter."""
    inside = (path / "bin" / "python3", path / "bin" / "python")
    python = path if path.is_file() else next((one for one in inside if one.exists()), None)
    if python is None:
        raise EnvironmentMissing(f"no environment at {path}", hint="name a venv, a conda prefix, or an interpreter")
    prefix = python.absolute().parent.parent
    try:
        site = site_packages(prefix)
    except FileNotFoundError:
        told = system.run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], timeout=30)
        site = Path(told.stdout.strip())
        if told.returncode != 0 or not site.is_dir():
            raise EnvironmentMissing(f"{python} tells no site-packages", found=told.stderr.strip()[:200]) from None
    folder = re.search(r"python(3\.\d+)", str(site))
    if folder:
        return site, folder[1]
    answer = interpreter.ask(python)
    if isinstance(answer, interpreter.Rejected):
        raise EnvironmentMissing(f"{python} {answer.reason}")
    return site, ".".join(answer.version.split(".")[:2])


def _installed(site: Path, one: Distribution) -> Installed:
    folder = site / one.folder
    try:
        headers = HeaderParser().parsestr((folder / "METADATA").read_text(errors="replace"))
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
    origin = ""
    try:
        told = json.loads((folder / "direct_url.json").read_text())
        editable = told.get("dir_info", {}).get("editable")
        origin = f"{'an editable install of ' if editable else ''}{told.get('url', 'a direct URL')}"
    except (OSError, ValueError):
        origin = ""
    return Installed(
        name=one.name,
        version=str(headers.get("Version") or one.version),
        requested=(folder / "REQUESTED").is_file() and not _installed_by_uv(folder),
        requires=tuple(requires),
        origin=origin,
    )


def _installed_by_uv(folder: Path) -> bool:
    """Tell whether uv installed a distribution: it writes REQUESTED for dependencies, too, so that tells nothing."""
    try:
        return (folder / "INSTALLER").read_text().strip() == "uv"
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
    for root, folders, files in os.walk(site):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        for file in files:
            path = os.path.join(root, file)
            if path not in owned and not file.endswith(".pyc"):
                damage.append(f"{os.path.relpath(path, site)}: no distribution owns it")
    return tuple(damage)


def _differences(
    site: Path, found: tuple[Distribution, ...], layout: Layout, name: str, adopted: Adopted
) -> tuple[str, ...]:
    """Compare every file of the adopted distributions with the rebuilt environment, by hash."""
    prefix = store.current_prefix(layout, name)
    below = os.path.relpath(site_packages(prefix), prefix)
    rebuilt = read_inventory(prefix)
    names = {one.name for one in (*adopted.direct, *adopted.dependencies)}
    differences = []
    expected = set()
    for one in found:
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
