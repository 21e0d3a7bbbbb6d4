"""Whether compiled extensions fit the torch, the Python and the C library they meet. Pure."""

from __future__ import annotations

import re

from envlock.verify import rules
from envlock.verify.check import Check, Status
from envlock.verify.checks.told import bad, good, listed, skipped
from envlock.verify.coverage import required
from envlock.verify.facts import Binary
from envlock.verify.subject import Subject

_TAG = re.compile(r"\.cpython-([0-9])([0-9]+)-")
# Where toolkits and their parts are installed; build machines leave other absolute paths behind, which lead nowhere.
_SYSTEM_CUDA = re.compile(r"/(?:cuda(?:-[0-9.]+)?|cudnn|nccl|nvidia)(?:/|$)|/lib(?:cud|cublas|nccl|nv)[A-Za-z_]*\.so")
# `Ss`, `RKSs`: std::string of the C++ ABI before C++11, which torch has not been built with since 2.6.
_OLD_STRING = re.compile(r"(?:RK|R|P|^|[a-z])Ss(?:[a-zA-Z_]|$)")


def checks(subject: Subject) -> tuple[Check, ...]:
    """Judge what the loader would find out at import."""
    return (
        _torch(subject),
        _damaged(subject),
        _search(subject),
        _glibc(subject),
        _python(subject),
        _toolchain(subject),
    )


def _torch(subject: Subject) -> Check:
    name, torch = "abi.torch", subject.facts.torch
    if torch is None:
        return skipped(name, "no torch here")
    using = [binary for binary in subject.facts.binaries if not binary.path.startswith("torch/")]
    fitting = {rules.without_build(binary.path) for binary in using if not binary.unresolved_count}
    wrong = [binary for binary in using if binary.unresolved_count and rules.without_build(binary.path) not in fitting]
    if not wrong:
        return good(name, found=f"every extension finds its symbols in torch {torch.version}")
    old = [binary for binary in wrong if any(_OLD_STRING.search(symbol) for symbol in binary.unresolved)]
    which = [f"{binary.path} ({binary.package or 'no package'}): {_missing(binary)}" for binary in wrong]
    why = "; it was built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0)" if old else ""
    return bad(
        name,
        expected=f"extensions built for torch {torch.version}",
        found=f"{listed(which, 2)}{why}",
        where=f"{subject.site}/{wrong[0].path}",
        remedy=f"build {wrong[0].package or 'it'} against this torch, or lock the build that was",
    )


def _missing(binary: Binary) -> str:
    return f"{binary.unresolved_count} torch symbols not exported, first {binary.unresolved[0]}"


def _damaged(subject: Subject) -> Check:
    name = "abi.readable"
    machine = subject.lock.machine if subject.lock else subject.around.machine
    wrong = {item: item.problem for item in subject.facts.binaries if item.problem}
    for item in subject.facts.binaries:
        if item.machine and machine and item.machine != machine:
            wrong[item] = f"for {item.machine}"
    if not wrong:
        return good(name, found=f"{len(subject.facts.binaries)} libraries can be read")
    insisted = subject.profile.kernels.require if subject.profile else ()
    grave = [item for item in wrong if required(item.path, insisted)]
    shown = grave or list(wrong)
    return bad(
        name,
        status="fail" if grave else "warn",
        expected=f"whole ELF files for {machine or 'this machine'}",
        found=listed([f"{item.path}: {wrong[item]}" for item in shown]),
        where=f"{subject.site}/{shown[0].path}",
        remedy="damaged, truncated or of another platform: envlock sync --rebuild, or install that package anew",
    )


def _search(subject: Subject) -> Check:
    """Judge where the loader is told to look before it looks in the environment (ld.so(8): RPATH, RUNPATH, a path)."""
    name = "abi.search-path"
    wrong: list[tuple[Binary, str]] = []
    for binary in subject.facts.binaries:
        told = (*binary.search.partition(" ")[2].split(":"), *binary.needed)
        foreign = [path for path in told if path.startswith("/") and _SYSTEM_CUDA.search(path)]
        wrong += [(binary, path) for path in foreign]
    if not wrong:
        return good(name, found="no library is sent to a CUDA outside the environment")
    binary = wrong[0][0]
    return bad(
        name,
        status="warn",
        expected="CUDA libraries from the environment alone",
        found=listed([f"{one.path} looks in {path}" for one, path in wrong]),
        where=f"{subject.site}/{binary.path}",
        remedy=f"on a host that has that folder {binary.package or 'it'} loads the CUDA there: "
        "build it without that path, or take a wheel that has none",
    )


def _glibc(subject: Subject) -> Check:
    name = "abi.glibc"
    needs = [(_version(binary.glibc), binary) for binary in subject.facts.binaries if binary.glibc]
    if not needs:
        return skipped(name, "no library here needs a glibc")
    newest, binary = max(needs, key=lambda item: item[0])
    here, floor = subject.around.glibc, subject.lock.glibc if subject.lock else ""
    if here and newest > _version(here):
        return bad(
            name,
            expected=f"glibc {binary.glibc} or later",
            found=f"glibc {here} on this machine",
            where=f"{subject.site}/{binary.path}",
            remedy="run it on a newer distribution, or lock with [platform] glibc set to this machine's",
        )
    if floor and newest > _version(floor):
        return bad(
            name,
            status="warn",
            expected=f"nothing newer than the declared glibc {floor}",
            found=f"{binary.path} needs glibc {binary.glibc}",
            where=f"{subject.site}/{binary.path}",
            remedy="its wheel's tag promises less than it needs; raise [platform] glibc",
        )
    return good(name, found=f"glibc {binary.glibc} needed at most, {here or 'unknown'} here")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _python(subject: Subject) -> Check:
    name, minor = "abi.python", subject.facts.python
    declared = subject.profile.python if subject.profile else subject.lock.python if subject.lock else minor
    wanted = ".".join(declared.split(".")[:2])
    told = ".".join(subject.around.python_version.split(".")[:2])
    if wanted != minor or (told and told != minor):
        return bad(
            name,
            expected=f"Python {wanted}",
            found=f"packages for {minor}, interpreter {subject.around.python_version or 'unknown'}",
            where=f"{subject.prefix}/pyvenv.cfg",
            remedy="envlock sync --rebuild",
        )
    if not subject.around.base:
        return bad(
            name,
            expected="the interpreter the environment was made with",
            found="it is gone",
            where=f"{subject.prefix}/bin/python",
            remedy="envlock sync --rebuild, with a Python that stays",
        )
    for status, found in _other_interpreters(subject):
        return bad(
            name,
            status=status,
            expected=f"interpreters of Python {minor}, for which the packages are",
            found=found,
            where=f"{subject.prefix}/{found.partition(' ')[0]}",
            remedy="it finds none of the packages, or loads those of another: envlock sync --rebuild, or make it anew",
        )
    tag = minor.replace(".", "")
    tags = [(binary.path, match) for binary in subject.facts.binaries if (match := _TAG.search(binary.path))]
    foreign = [path for path, match in tags if f"{match[1]}{match[2]}" != tag]
    if foreign and len(foreign) * 2 > len(tags):
        return bad(
            name,
            expected=f"extensions for cpython-{tag}",
            found=listed(foreign),
            where=f"{subject.site}/{foreign[0]}",
            remedy="the environment was made for another Python: build it anew",
        )
    return good(name, found=f"Python {subject.around.python_version or minor}")


def _other_interpreters(subject: Subject) -> list[tuple[Status, str]]:
    """Return what starts another Python than the packages are for, what cannot be told last."""
    known, untold = [], []
    for item in subject.around.interpreters:
        if not item.minor:
            untold.append(f"{item.path} leads to {item.real}, which does not tell its Python")
        elif item.minor != subject.facts.python:
            known.append(f"{item.path} is Python {item.minor} ({item.real})")
    return [("fail", told) for told in known] + [("warn", told) for told in untold]


def _toolchain(subject: Subject) -> Check:
    name = "triton.toolchain"
    if not subject.facts.jit:
        return skipped(name, "no Triton here")
    missing = [] if subject.around.headers else [f"Python.h of {subject.facts.python}"]
    missing += [] if subject.around.compiler else ["a C compiler (CC, gcc, cc, clang)"]
    if not missing:
        return good(name, found=f"Python.h and {subject.around.compiler}")
    return bad(
        name,
        status="fail" if subject.capability else "warn",
        expected="Python.h and a C compiler: Triton compiles its launcher at run time",
        found=f"no {' and no '.join(missing)}",
        where=subject.around.base or subject.prefix,
        remedy=f"apt-get install gcc python{subject.facts.python}-dev, or take a uv-managed Python, which has headers",
    )
