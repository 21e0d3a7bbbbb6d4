"""A passed probe, remembered for exactly the seal, driver, GPUs and boot it was reached under.

`envs/NAME/attestations/GENERATION` holds one `key value` pair a line; anything that differs, or a line too few, and the
probe runs again. Only a pass is ever written: a failed probe removes what was there. Standard library only, and light:
the launch path may read it.
"""

from __future__ import annotations

import os

from envlock.disk import write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

KEYS = ("seal", "driver", "gpus", "boot", "declared")


def basis(*, seal: str, driver: str, gpus: Iterable[str], boot: str, declared: str) -> dict[str, str]:
    """Return what an attestation holds for: the environment digest, the driver, the GPUs' UUIDs, this boot.

    `declared` is a digest of what the probe was to import and under which variables.
    """
    return {"seal": seal, "driver": driver, "gpus": ",".join(sorted(gpus)), "boot": boot, "declared": declared}


def read(path: str | Path) -> dict[str, str] | None:
    """Return what is remembered, or None when there is nothing, or nothing readable."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = dict(line.rstrip("\n").split(" ", 1) for line in file)
    except (OSError, ValueError):
        return None
    return pairs if all(pairs.get(key) for key in KEYS) else None


def holds(path: str | Path, now: Mapping[str, str]) -> bool:
    """Tell whether a passed probe is remembered for exactly what is the case now."""
    kept = read(path)
    return kept is not None and all(now.get(key) and kept[key] == now[key] for key in KEYS)


def remember(path: Path, now: Mapping[str, str], *, time: str) -> None:
    """Remember a passed probe. Raises StoreError when the store cannot be written."""
    write_atomically(path, "".join(f"{key} {now[key]}\n" for key in KEYS) + f"time {time}\n")


def forget(path: Path) -> None:
    """Forget what was remembered; a probe has failed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
