"""What a resolution must fulfil before it may become a lock. Pure; raises ResolutionError with the mending line."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.utils import canonicalize_name

from envlock.declare.profile import Profile
from envlock.errors import ResolutionError
from envlock.lock.coherence import asked_for, cuda_pulled_by, same_cuda, torch_cuda
from envlock.lock.document import Package
from envlock.lock.twins import twins
from envlock.resolve.request import index_of


def judge(profile: Profile, packages: Sequence[Package]) -> None:
    """Hold a resolution against its profile: indexes, the torch build, one CUDA major per library."""
    _indexes(profile, packages)
    _torch(profile, packages)
    _twins(profile, packages)


def _indexes(profile: Profile, packages: Sequence[Package]) -> None:
    """`only` both ways: these names from there and nowhere else, nothing else from there (dependency confusion)."""
    bound = index_of(profile)
    closed = {index.name: {canonicalize_name(name) for name in index.only} for index in profile.indexes if index.only}
    for package in packages:
        wanted = bound.get(package.name)
        if wanted is not None and package.index != wanted:
            raise ResolutionError(
                f"{package.name} {package.version} would come from the wrong index",
                where=f"profiles/{profile.name}.toml: [[index]] {wanted}: only",
                expected=f"index {wanted}, and nowhere else",
                found=f"index {package.index}" if package.index else "a direct reference",
                hint=f"make sure that {wanted} serves {package.name} for this platform",
            )
        allowed = closed.get(package.index)
        if allowed is not None and package.name not in allowed and wanted != package.index:
            raise ResolutionError(
                f"index {package.index} may not serve {package.name}",
                where=f"profiles/{profile.name}.toml: [[index]] {package.index}: only",
                expected=f"nothing from there but {', '.join(sorted(allowed))}",
                found=f"{package.name} {package.version}",
                hint=f"add {package.name!r} to its `only`, if that is where it should come from",
            )


def _torch(profile: Profile, packages: Sequence[Package]) -> None:
    if profile.torch is None:
        return
    by_name = {package.name: package for package in packages}
    torch = by_name.get("torch")
    if torch is None:
        raise ResolutionError("no torch in the resolution", where=f"profiles/{profile.name}.toml: [torch]")
    found = torch_cuda(torch, by_name)
    declared = profile.torch.cuda
    if same_cuda(declared, found.cuda):
        return
    short = "cpu" if declared is None else f"cu{declared.replace('.', '')}"
    who = [f"{name} requires {line}" for name, line in asked_for("torch", packages)]
    pulled = [] if found.cuda is None else list(cuda_pulled_by(found.cuda.split(".")[0], packages))
    raise ResolutionError(
        f"torch {torch.version} from index {torch.index} is not the CUDA {declared or 'CPU'} build",
        where=f"profiles/{profile.name}.toml: [torch]: cuda",
        expected=f"CUDA {declared}" if declared else "a CPU build",
        found=f"{'CUDA ' + found.cuda if found.cuda else 'a CPU build'}: torch {torch.version} {found.evidence}",
        hint=(
            f'pin the build: [torch] version = "{torch.version.split("+")[0]}+{short}", index = "pytorch-{short}", '
            f'with [[index]] name = "pytorch-{short}", url = "https://download.pytorch.org/whl/{short}", '
            f'only = ["torch"]; '
            f'or accept it: [torch] cuda = "{found.cuda or "cpu"}"'
        ),
        details=[
            *(["who asks for torch:", *(f"  {line}" for line in who)] if who else []),
            *(["what asks for that CUDA:", *(f"  {line}" for line in pulled[:8])] if pulled else []),
        ],
    )


def _twins(profile: Profile, packages: Sequence[Package]) -> None:
    groups = twins(packages)
    if not groups:
        return
    details = []
    for group in groups:
        for name in group:
            who = asked_for(name, packages)
            asked = ", ".join(f"{other} requires {line}" for other, line in who) or "asked for by the profile"
            details.append(f"{name}: {asked}")
    raise ResolutionError(
        "one library twice, for two CUDA majors: they install the same files, and the last one wins",
        where=f"profiles/{profile.name}.toml",
        expected="one CUDA major for every library",
        found="; ".join(" beside ".join(group) for group in groups),
        hint="choose packages built for one CUDA major, or `exclude` the one that does not belong",
        details=details,
    )
