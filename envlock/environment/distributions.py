"""What is installed in a prefix, read from its files alone: distributions, their records, the torch build."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name

from envlock.environment.digests import read_regular
from envlock.environment.records import Recorded, read_record
from envlock.environment.seal import SealedTorch

_ASSIGNED = {
    "version": re.compile(r"^__version__\s*(?::\s*[^=]+)?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE),
    "cuda": re.compile(r"^cuda\s*(?::\s*[^=]+)?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE),
}


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One installed distribution."""

    name: str
    """Normalised."""
    version: str
    folder: str
    """Name of its `.dist-info` folder."""
    record: str | None = field(repr=False)
    """Text of its RECORD; None when it has none."""

    @property
    def has_record(self) -> bool:
        """Tell whether it says which files are its own."""
        return self.record is not None

    @cached_property
    def records(self) -> tuple[Recorded, ...]:
        """The lines of its RECORD, taken apart when they are asked for; empty when it has none."""
        return () if self.record is None else tuple(read_record(self.record))


def site_packages(prefix: Path) -> Path:
    """Return a venv's site-packages folder. Raises FileNotFoundError when there is none."""
    for folder in sorted((prefix / "lib").glob("python3.*")):
        site = folder / "site-packages"
        if site.is_dir():
            return site
    raise FileNotFoundError(f"{prefix}: no lib/python3.*/site-packages")


def distributions(site: Path) -> Iterator[Distribution]:
    """Yield every distribution of a site-packages folder, by folder name."""
    for folder in sorted(entry for entry in os.listdir(site) if entry.endswith(".dist-info")):
        stem = folder.removesuffix(".dist-info")
        name, _, version = stem.rpartition("-")
        try:
            text = read_regular(site / folder / "RECORD").decode("utf-8", "surrogateescape")
        except OSError:
            text = None
        yield Distribution(
            name=canonicalize_name(name or stem),
            version=version,
            folder=folder,
            record=text,
        )


def torch_build(site: Path) -> SealedTorch | None:
    """Return the torch build that `torch/version.py` tells (its metadata may hide it), or None without a torch."""
    try:
        text = read_regular(site / "torch" / "version.py").decode("utf-8", "replace")
    except OSError:
        return None
    version, cuda = (pattern.search(text) for pattern in (_ASSIGNED["version"], _ASSIGNED["cuda"]))
    found = [entry for entry in os.listdir(site) if re.fullmatch(r"torch-[^-]+\.dist-info", entry)]
    return SealedTorch(
        version=version[1] if version else "unknown",
        cuda=cuda[1] if cuda else None,
        distribution=found[0][len("torch-") : -len(".dist-info")] if found else "none",
    )
