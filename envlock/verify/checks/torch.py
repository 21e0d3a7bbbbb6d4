"""The torch build: told by its own files, since its metadata may hide it. Pure."""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from envlock.verify import rules
from envlock.verify.check import Check
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.subject import Subject


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge torch's CUDA build, its version, who else counts on it, and the CUDA major of every library."""
    return (_build(subject), _version(subject), _companions(subject), _majors(subject))


def _declared(subject: Subject) -> tuple[str, str | None] | None:
    """Return (who says so, CUDA release) of the torch that should be there, or None when nobody says."""
    if subject.profile is not None and subject.profile.torch is not None:
        return f"profiles/{subject.profile.name}.toml", subject.profile.torch.cuda
    if subject.lock is not None and subject.lock.torch is not None:
        return f"locks/{subject.lock.profile}.toml", subject.lock.torch.cuda
    if subject.seal is not None and subject.seal.torch is not None:
        return "the seal", subject.seal.torch.cuda
    return None


def _build(subject: Subject) -> Check:
    name, torch, declared = "torch.cuda-build", subject.facts.torch, _declared(subject)
    if declared is None:
        if torch is None:
            return skipped(name, "no torch here, and none declared")
        return good(name, found=f"torch {torch.version}, CUDA {torch.cuda or 'none (CPU build)'}")
    who, cuda = declared
    found = "no torch" if torch is None else f"torch {torch.version}, CUDA {torch.cuda or 'none (CPU build)'}"
    if torch is not None and torch.cuda == cuda:
        return good(name, found=found, expected=f"CUDA {cuda or 'none'} ({who})")
    profile = "NAME" if subject.profile is None else subject.profile.name
    return bad(
        name,
        expected=f"a torch built for CUDA {cuda or 'none'} ({who})",
        found=found,
        where=f"{subject.site}/torch/version.py",
        remedy=f"another torch was put in its place: envlock sync --rebuild {profile}",
    )


def _version(subject: Subject) -> Check:
    name, torch = "torch.version", subject.facts.torch
    if torch is None:
        return skipped(name, "no torch here")
    locked = subject.lock.package("torch") if subject.lock else None
    wanted = locked.version if locked else None
    public = torch.version.split("+")[0]
    if wanted is not None and wanted.split("+")[0] != public:
        return bad(
            name,
            expected=f"torch {wanted}, as locked",
            found=f"torch {torch.version}",
            where=f"{subject.site}/torch/version.py",
            remedy="envlock sync --rebuild",
        )
    if torch.distribution.split("+")[0] != public:
        return bad(
            name,
            expected=f"metadata of torch {public}",
            found=f"files of torch {torch.version}, metadata of {torch.distribution}",
            where=f"{subject.site}/torch/version.py",
            remedy="two torches were installed over each other: build the environment anew",
        )
    return good(name, found=f"torch {torch.version}")


def _companions(subject: Subject) -> Check:
    name, torch = "torch.companions", subject.facts.torch
    if torch is None:
        return skipped(name, "no torch here")
    wrong = []
    for item in subject.facts.installed:
        try:
            fits = not item.torch or SpecifierSet(item.torch).contains(Version(torch.version), prereleases=True)
        except (InvalidSpecifier, InvalidVersion):
            continue
        if not fits:
            wrong.append(f"{item.name} {item.version} needs torch{item.torch}")
    if not wrong:
        return good(name, found=f"every package that names a torch takes {torch.version}")
    return bad(
        name,
        expected=f"packages for torch {torch.version}",
        found=listed(wrong),
        where=subject.site,
        remedy="lock them together with this torch: envlock lock",
    )


def _majors(subject: Subject) -> Check:
    name, torch = "cuda.one-major", subject.facts.torch
    if torch is None or torch.cuda is None:
        return skipped(name, "no CUDA torch here")
    wanted = torch.cuda.partition(".")[0]
    right: set[str] = set()
    wrong: dict[str, str] = {}
    for binary in subject.facts.binaries:
        needs = [soname for soname in binary.needed if soname in rules.CUDA_MAJORS]
        strange = [soname for soname in needs if wanted not in rules.CUDA_MAJORS[soname].split(" or ")]
        if strange:
            wrong[binary.path] = strange[0]
        else:
            right.add(rules.without_build(binary.path))
    # A package may bring one library a CUDA major and choose at import: its sibling is what gets loaded.
    wrong = {path: soname for path, soname in wrong.items() if rules.without_build(path) not in right}
    if not wrong:
        return good(name, found=f"every library that needs CUDA needs CUDA {wanted}")
    return bad(
        name,
        expected=f"libraries for CUDA {wanted}, as torch {torch.version}",
        found=listed([f"{path} needs {soname}" for path, soname in wrong.items()]),
        where=f"{subject.site}/{next(iter(wrong))}",
        remedy=f"take the cu{wanted} builds of these packages: two CUDA runtimes in one process crash",
    )
