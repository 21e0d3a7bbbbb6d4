"""What must hold inside one lock for its CUDA stack to be one stack. Pure judgements over packages.

Facts: PyPI's torch 2.10.0 requires `nvidia-cuda-runtime-cu12==12.8.90`, 2.11.0 requires `cuda-toolkit==13.0.*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock.lock.document import Package
from envlock.lock.twins import SUFFIX

_LOCAL = re.compile(r"^cu([0-9]{2})([0-9])$")
# Distributions that carry the CUDA runtime's own version, most telling first.
_RUNTIMES = ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12")


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaEvidence:
    """Which CUDA a torch build is for, and what says so."""

    cuda: str | None
    """Major.minor; a bare major when only package suffixes tell; None: a CPU build."""
    evidence: str


def torch_cuda(torch: Package, packages: Mapping[str, Package]) -> CudaEvidence:
    """Return the CUDA of a torch build as its own metadata tells it, not as its version suggests."""
    for line in torch.requires:
        wanted = Requirement(line)
        name = canonicalize_name(wanted.name)
        if name in _RUNTIMES:
            exact = next((spec.version for spec in wanted.specifier if spec.operator == "=="), None)
            held = packages.get(name)
            told = (exact or (held.version if held else "")).removesuffix(".*")
            if told:
                return CudaEvidence(cuda=_major_minor(told), evidence=f"requires {line}")
    local = Version(torch.version).local or ""
    match = _LOCAL.match(local)
    if match:
        return CudaEvidence(cuda=f"{match[1]}.{match[2]}", evidence=f"local version +{local}")
    if local.startswith("cpu"):
        return CudaEvidence(cuda=None, evidence=f"local version +{local}")
    majors = {found[2] for line in torch.requires if (found := SUFFIX.match(canonicalize_name(Requirement(line).name)))}
    if len(majors) == 1:
        major = majors.pop()
        suffixed = next(line for line in torch.requires if f"-cu{major}" in line)
        return CudaEvidence(cuda=major, evidence=f"requires {suffixed}")
    return CudaEvidence(cuda=None, evidence="no CUDA runtime in its metadata")


def _major_minor(version: str) -> str:
    parts = version.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 else parts[0]


def same_cuda(declared: str | None, found: str | None) -> bool:
    """Tell whether a declared CUDA (`12.8`) and a found one (`12.8`, or a bare major) agree."""
    if declared is None or found is None:
        return declared is found
    return found == declared or ("." not in found and declared.split(".")[0] == found)


def asked_for(name: str, packages: Iterable[Package]) -> tuple[tuple[str, str], ...]:
    """Return (package, requirement) for every package that requires `name`, sorted."""
    return tuple(
        sorted(
            (package.name, line)
            for package in packages
            for line in package.requires
            if canonicalize_name(Requirement(line).name) == name
        )
    )


def cuda_pulled_by(major: str, packages: Iterable[Package]) -> tuple[str, ...]:
    """Return `package requires requirement` for everything outside NVIDIA's own that asks for that CUDA major."""
    found = []
    for package in packages:
        if package.name == "torch" or package.name.startswith(("nvidia-", "cuda-")):
            continue
        for line in package.requires:
            wanted = Requirement(line)
            name = canonicalize_name(wanted.name)
            suffix = SUFFIX.match(name)
            extras = {f"cu{major}"} & {extra.lower() for extra in wanted.extras}
            cuda_python = name in ("cuda-python", "cuda-bindings", "cuda-toolkit") and not wanted.specifier.contains(
                f"{int(major) - 1}.9"
            )
            if (suffix and suffix[2] == major) or extras or cuda_python:
                found.append(f"{package.name} {package.version} requires {line}")
    return tuple(sorted(set(found)))
