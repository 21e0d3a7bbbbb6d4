"""What an environment's files say, as values with a JSON form: what `seal/code.json` holds. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple

from envlock.environment.seal import SealedTorch
from envlock.verify.coverage import Library
from envlock.verify.fatbin import DeviceCode, parse_target

FORMAT = 4
FILE = "code.json"


class Binary(NamedTuple):
    """One shared library or extension module, as the loader sees it."""

    path: str
    """Below site-packages."""
    package: str
    needed: tuple[str, ...]
    search: str
    """RPATH or RUNPATH, `RPATH $ORIGIN/...`; empty without one."""
    glibc: str
    """Newest GLIBC version it needs, `2.34`; empty for none."""
    unresolved: tuple[str, ...]
    """torch symbols it needs that this environment's torch does not export (mangled, at most five)."""
    unresolved_count: int
    problem: str
    """Why the file could not be read; empty when it could."""
    machine: str
    """The CPU it is for, `x86_64`; empty where nothing of it could be read."""


class Installed(NamedTuple):
    """One distribution, by its metadata: a `.dist-info` folder, or the `.egg-info` of an old tool."""

    name: str
    version: str
    folder: str
    torch: str
    """The torch requirement of its metadata (`==2.11.0`), or empty."""
    told_name: str
    """Name by its METADATA, normalised; empty without one that can be read."""
    told_version: str
    """Version by its METADATA."""
    unchecked: str
    """Why its files cannot be held against its RECORD (`no RECORD`); empty when they can."""


class Outside(NamedTuple):
    """A link in site-packages that leads out of the environment, or nowhere."""

    path: str
    """Below site-packages."""
    target: str
    package: str
    """The distribution that recorded the file, or files below the folder; empty for none."""
    folder: bool


class Claim(NamedTuple):
    """One file that several distributions recorded with different bytes."""

    path: str
    packages: tuple[str, ...]


class Ptxas(NamedTuple):
    """A PTX assembler that an environment brings along."""

    path: str
    release: str
    """CUDA release it is of, `12.8`; empty when it does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Everything the static checks judge that depends on the environment's bytes alone."""

    python: str
    """Minor version by the folder name, `3.11`."""
    torch: SealedTorch | None
    installed: tuple[Installed, ...]
    binaries: tuple[Binary, ...]
    libraries: tuple[Library, ...]
    claims: tuple[Claim, ...]
    outside: tuple[Outside, ...]
    """Links to folders and libraries elsewhere; of a sealed environment, none: sealing follows what was installed."""
    ptxas: tuple[Ptxas, ...]
    scripts: tuple[tuple[str, str], ...]
    """(console script below the prefix, interpreter that its first lines name)."""
    modules: tuple[str, ...]
    """What lies directly in site-packages and can be imported, by its import name."""
    path_files: tuple[str, ...]
    """`.pth` files of site-packages that a distribution brought or that were there when the environment was sealed."""
    jit: bool
    """Triton is there, which compiles C at run time."""

    @property
    def overlaid(self) -> frozenset[str]:
        """Packages whose library lies over another's, or under it."""
        return frozenset(owner for claim in self.claims if ".so" in claim.path for owner in claim.packages)

    def package(self, name: str) -> Installed | None:
        """Return the first distribution of that normalised name, or None."""
        return next((item for item in self.installed if item.name == name), None)


def dump(facts: Facts) -> bytes:
    """Return facts as JSON."""
    data = {
        "format": FORMAT,
        "python": facts.python,
        "torch": None if facts.torch is None else asdict(facts.torch),
        "installed": facts.installed,
        "binaries": facts.binaries,
        "libraries": [
            {
                "path": library.path,
                "package": library.package,
                "containers": [
                    [number, " ".join(map(str, container))] for container, number in library.code.containers
                ],
                "problems": library.code.problems,
            }
            for library in facts.libraries
        ],
        "claims": facts.claims,
        "outside": facts.outside,
        "ptxas": facts.ptxas,
        "scripts": facts.scripts,
        "modules": facts.modules,
        "path_files": facts.path_files,
        "jit": facts.jit,
    }
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def load(text: bytes) -> Facts:
    """Return the facts a JSON text holds. Raises ValueError, KeyError or TypeError when it holds none."""
    data = json.loads(text)
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r}, this envlock reads {FORMAT}")
    return Facts(
        python=data["python"],
        torch=None if data["torch"] is None else SealedTorch(**data["torch"]),
        installed=tuple(Installed(*row) for row in data["installed"]),
        binaries=tuple(
            Binary(path, package, tuple(needed), search, glibc, tuple(unresolved), number, problem, machine)
            for path, package, needed, search, glibc, unresolved, number, problem, machine in data["binaries"]
        ),
        libraries=tuple(
            Library(
                row["path"],
                row["package"],
                DeviceCode(
                    tuple((tuple(map(parse_target, text.split())), number) for number, text in row["containers"]),
                    tuple(row["problems"]),
                ),
            )
            for row in data["libraries"]
        ),
        claims=tuple(Claim(path, tuple(packages)) for path, packages in data["claims"]),
        outside=tuple(Outside(*row) for row in data["outside"]),
        ptxas=tuple(Ptxas(*row) for row in data["ptxas"]),
        scripts=tuple((name, interpreter) for name, interpreter in data["scripts"]),
        modules=tuple(data["modules"]),
        path_files=tuple(data["path_files"]),
        jit=data["jit"],
    )
