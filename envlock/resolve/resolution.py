"""From a profile to a lock: ask uv, read wheels' metadata, hold the answer against what the profile declares."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock.declare.profile import PYPI, Profile, fingerprint, lock_inputs
from envlock.errors import IndexFault, ResolutionError
from envlock.lock.coherence import torch_cuda
from envlock.lock.cuda import driver_floor
from envlock.lock.document import Artifact, Direct, Lock, Package, TorchBuild
from envlock.resolve import uv
from envlock.resolve.answer import File, Offered, Pinned, read_offers, read_pins, read_yanked
from envlock.resolve.edges import license_of, requirement_edges
from envlock.resolve.fetch import Fetcher
from envlock.resolve.indexes import without_credentials
from envlock.resolve.judge import judge
from envlock.resolve.metadata import collect
from envlock.resolve.request import build_request, direct_requirements, index_of, pinned_hash, written
from envlock.resolve.sizes import collect_sizes
from envlock.resolve.target import best_wheel

_ROUNDS = 6  # each round binds at least one more name to its index; real profiles need one or two


def resolve(
    profile: Profile,
    urls: Mapping[str, str],
    *,
    project_root: Path,
    cache: Path,
    environ: Mapping[str, str],
    previous: Lock | None = None,
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    sizes: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Lock:
    """Resolve a profile into a lock, keeping the versions of `previous` wherever nothing forces them to move.

    `sizes` asks the wheels what they unpack to.

    Raises ResolutionError (unsatisfiable, wrong CUDA build, twins, a name from the wrong index) and IndexFault.
    """
    held = {} if previous is None or upgrade else {p.name: p.version for p in previous.packages if p.direct is None}
    for name in upgrade_packages:
        held.pop(canonicalize_name(name), None)
    on_step("resolving")
    pinned, offers, yanked = _ask(profile, urls, held, project_root=project_root, environ=environ)
    files = {name: _chosen(profile, offer, pinned[name]) for name, offer in offers.items()}
    fetcher = Fetcher(urls.values(), environ)
    left = sum(1 for file in files.values() if file is not None)

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        on_step(f"reading metadata, {left} to go")

    known = {name: file for name, file in files.items() if file is not None}
    hashed = {name: _with_hash(fetcher, file) for name, file in known.items()}
    asked = written(profile)
    for name, file in hashed.items():
        _as_pinned(name, asked.get(name, ""), file)
    metadata = collect(hashed, cache / "metadata", fetcher, on_done=count)
    edges = requirement_edges(profile, metadata, pinned, names=tuple(offers))
    installed: dict[str, int] = {}
    if sizes:
        on_step("reading installed sizes")
        installed = collect_sizes(hashed, cache / "sizes", fetcher)
    logical = {without_credentials(url): name for name, url in urls.items()}
    packages = tuple(
        replace(
            _package(
                offers[name],
                pinned[name],
                hashed.get(name),
                metadata.get(name),
                requires=edges[name],
                logical=logical,
                asked=asked.get(name),
            ),
            installed_size=installed.get(name),
            yanked=yanked.get(name),
        )
        for name in sorted(offers)
    )
    judge(profile, packages)
    return Lock(
        profile=profile.name,
        profile_digest=fingerprint(profile),
        inputs=lock_inputs(profile),
        python=profile.python,
        machine=profile.platform.machine,
        glibc=profile.platform.glibc,
        torch=torch_build(packages),
        packages=packages,
    )


def torch_build(packages: Sequence[Package]) -> TorchBuild | None:
    """Return the torch build of a set of packages and the driver floor that follows, or None without a torch."""
    by_name = {package.name: package for package in packages}
    torch = by_name.get("torch")
    if torch is None:
        return None
    found = torch_cuda(torch, by_name)
    return TorchBuild(
        version=torch.version,
        cuda=found.cuda,
        runtime=found.evidence,
        driver_floor=None if found.cuda is None else driver_floor(found.cuda),
    )


def _ask(
    profile: Profile,
    urls: Mapping[str, str],
    held: Mapping[str, str],
    *,
    project_root: Path,
    environ: Mapping[str, str],
) -> tuple[dict[str, Pinned], dict[str, Offered], dict[str, str]]:
    """Ask uv until every bound name comes from its own index, then ask for the files and who of them is yanked."""
    names = index_of(profile)
    asked = {canonicalize_name(Requirement(line).name) for line in direct_requirements(profile)}
    bound: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="envlock-lock-") as temporary:
        folder = Path(temporary)
        for _ in range(_ROUNDS):
            request = build_request(profile, urls, project_root=str(project_root), pins=held, bound=bound)
            try:
                pinned = read_pins(uv.compile_request(request, folder, environ=environ, pylock=False))
            except ResolutionError as error:
                # The only version that fits may be on the index that a bound name has not been sent to yet.
                more = {name for name in names if name not in asked | bound and _mentions(error, name)}
                if not more:
                    raise
                bound |= more
                continue
            more = {name for name in names if name in pinned and name not in asked | bound}
            if not more:
                break
            bound |= more
        versions = {name: pin.version for name, pin in pinned.items() if pin.version}
        request = build_request(profile, urls, project_root=str(project_root), pins=versions, bound=bound)
        said: list[str] = []
        text = uv.compile_request(request, folder, environ=environ, pylock=True, on_said=said.append)
        offers = read_offers(text)
    for name, offer in offers.items():
        if name not in pinned or (offer.version and pinned[name].version and offer.version != pinned[name].version):
            raise IndexFault(
                f"an index changed while it was read: {name}", found=offer.version, hint="run the same command again"
            )
    return pinned, offers, read_yanked("".join(said))


def _mentions(error: ResolutionError, name: str) -> bool:
    return any(name in line.replace("_", "-").lower() for line in error.details)


def _chosen(profile: Profile, offer: Offered, pin: Pinned) -> File | None:
    """Return the one file to lock: the wheel that fits the platform best, else the source distribution."""
    by_file = {wheel.artifact.file: wheel for wheel in offer.wheels}
    best = best_wheel(by_file, profile.python, profile.platform.machine, profile.platform.glibc)
    if best is not None:
        return by_file[best]
    if offer.sdist is not None:
        return offer.sdist
    if offer.direct is not None and offer.direct.kind in ("git", "path"):
        return None
    platform = profile.platform
    raise ResolutionError(
        f"{offer.name} {offer.version} has no file for this platform",
        expected=f"a wheel for Python {profile.python}, linux {platform.machine}, glibc {platform.glibc}",
        found=", ".join(sorted(by_file)) or "no files",
        hint=f"choose another version of {pin.name}, or raise [platform] glibc if every host has a newer one",
    )


def _with_hash(fetcher: Fetcher, file: File) -> File:
    """Return the file with its sha256; an index that tells none (some list files bare) is asked for the file itself."""
    if file.artifact.sha256:
        return file
    digest = hashlib.sha256()
    size = 0
    try:
        with fetcher.open(file.url) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise IndexFault(f"{file.artifact.file} cannot be fetched", found=str(error)) from error
    return File(artifact=Artifact(file=file.artifact.file, size=size, sha256=digest.hexdigest()), url=file.url)


def _as_pinned(name: str, asked: str, file: File) -> None:
    """Raise IndexFault when a direct reference is not the bytes that the profile pins."""
    wanted = pinned_hash(asked)
    if wanted is not None and wanted != file.artifact.sha256:
        raise IndexFault(
            f"{name} is not the file that the profile pins",
            where=asked.partition("#")[0],
            expected=f"sha256 {wanted}",
            found=f"sha256 {file.artifact.sha256}",
            hint="find out who changed it; if the change is wanted, write the new hash into the profile",
        )


def _as_written(direct: Direct | None, asked: str | None) -> Direct | None:
    """Return a direct reference as the profile writes it, so that no path of this machine gets into the lock."""
    if direct is None or asked is None or direct.kind == "git":
        return direct
    return replace(direct, location=asked.partition("#")[0])


def _package(
    offer: Offered,
    pin: Pinned,
    file: File | None,
    headers: Message | None,
    *,
    requires: tuple[str, ...],
    logical: Mapping[str, str],
    asked: str | None,
) -> Package:
    version = offer.version or pin.version or ("" if headers is None else str(headers.get("Version", "")))
    return Package(
        name=offer.name,
        version=version,
        index="" if offer.direct is not None else logical.get(without_credentials(pin.source), PYPI),
        requires=requires,
        artifacts=() if file is None else (file.artifact,),
        direct=_as_written(offer.direct, asked),
        license="" if headers is None else license_of(headers),
        requires_python="" if headers is None else str(headers.get("Requires-Python") or ""),
    )
