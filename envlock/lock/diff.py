"""What differs between two locks, as values: the decision what it means is review's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from envlock.lock.document import Lock, Package, TorchBuild


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageChange:
    """One package that came, went or is not the same."""

    name: str
    before: Package | None
    after: Package | None

    @property
    def change(self) -> Literal["added", "removed", "changed"]:
        """Which of the three it is."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def sizes(self) -> tuple[int, int]:
        """Download size before and after, in bytes; what an index does not tell counts as nothing."""
        return download_size(self.before), download_size(self.after)

    @property
    def installed(self) -> tuple[int | None, int | None]:
        """Installed size before and after, in bytes; None where a lock does not know it, 0 where there is no package.

        The same artifact unpacks to the same bytes, so one lock may know it for both.
        """
        before, after = self.before, self.after
        if before is None or after is None or before.artifacts != after.artifacts:
            return installed_size(before), installed_size(after)
        known = before.installed_size if after.installed_size is None else after.installed_size
        return known, known


@dataclass(frozen=True, kw_only=True, slots=True)
class InputChange:
    """One line of the profile's own wishes that differs: `gpu.count`, `env.set.NCCL_DEBUG`."""

    key: str
    before: object
    after: object


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Two locks held side by side; `before` may be nothing (a profile that is new)."""

    before: Lock | None
    after: Lock | None
    packages: tuple[PackageChange, ...]
    inputs: tuple[InputChange, ...]

    @property
    def torch(self) -> tuple[TorchBuild | None, TorchBuild | None]:
        """The torch builds."""
        return (
            None if self.before is None else self.before.torch,
            None if self.after is None else self.after.torch,
        )

    @property
    def empty(self) -> bool:
        """Tell whether nothing differs that a lock can say."""
        return not self.packages and not self.inputs and self.torch[0] == self.torch[1]

    @property
    def installed(self) -> tuple[Total, Total]:
        """Installed size of each whole side; what one lock knows of an artifact, it knows for both."""
        sides = (self.before, self.after)
        known = {
            package.artifacts: package.installed_size
            for lock in sides
            for package in (() if lock is None else lock.packages)
            if package.installed_size is not None
        }
        sizes = [[] if lock is None else [known.get(package.artifacts) for package in lock.packages] for lock in sides]
        before, after = (Total(bytes=sum(s or 0 for s in side), unknown=side.count(None)) for side in sizes)
        return before, after


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """A sum of sizes, and how many packages are not in it because nobody knows theirs."""

    bytes: int
    unknown: int


def download_size(package: Package | None) -> int:
    """Return the bytes of a package's artifact."""
    return 0 if package is None else sum(artifact.size or 0 for artifact in package.artifacts)


def installed_size(package: Package | None) -> int | None:
    """Return the bytes a package's wheel unpacks to, None when its lock does not know them."""
    return 0 if package is None else package.installed_size


def compare(before: Lock | None, after: Lock | None) -> Difference:
    """Return what differs from one lock to another (of one profile over time, or of two profiles)."""
    old = {} if before is None else dict(before.by_name)
    new = {} if after is None else dict(after.by_name)
    changes = tuple(
        PackageChange(name=name, before=old.get(name), after=new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )
    was = {} if before is None else _target(before)
    now = {} if after is None else _target(after)
    return Difference(
        before=before, after=after, packages=changes, inputs=tuple(_inputs("", was, now)) if was and now else ()
    )


def _target(lock: Lock) -> dict[str, object]:
    return {**lock.inputs, "python": lock.python, "platform": {"machine": lock.machine, "glibc": lock.glibc}}


def _inputs(prefix: str, was: Mapping[str, object], now: Mapping[str, object]) -> list[InputChange]:
    found: list[InputChange] = []
    for key in [*was, *(key for key in now if key not in was)]:
        before, after = was.get(key), now.get(key)
        if before == after:
            continue
        if isinstance(before, Mapping) or isinstance(after, Mapping):
            found.extend(_inputs(f"{prefix}{key}.", _table(before), _table(after)))
        else:
            found.append(InputChange(key=f"{prefix}{key}", before=before, after=after))
    return found


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
