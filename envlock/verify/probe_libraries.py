"""Judging the libraries that a probe's process had loaded. Pure."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envlock.verify.check import Check
from envlock.verify.probe import ProbeFacts
from envlock.verify.probe_told import judged, untold

# Libraries whose presence under two roots, or two majors, in one process is a mixed stack.
_ONCE = ("libcudart", "libcublas.", "libcudnn.", "libnccl", "libnvrtc.")


def library_checks(facts: ProbeFacts, prefix: str, versions: Mapping[str, str]) -> Iterator[Check]:
    """Yield whether one of each is loaded, from the environment, and of the locked version."""
    answer = facts.answer("libraries")
    if answer is None or not answer["ok"]:
        if answer is not None:
            yield untold("probe.libraries", answer, "the loaded libraries can be listed")
        return
    paths: list[str] = list(answer["paths"])
    twice = []
    for stem in _ONCE:
        found = [path for path in paths if os.path.basename(path).startswith(stem)]
        if len(found) > 1:
            twice.append(", ".join(found))
    foreign = [path for path in paths if not _belongs(path, prefix)]
    if twice:
        yield judged(
            "probe.libraries",
            "fail",
            expected="one of each CUDA library in the process",
            found="; ".join(twice),
            remedy=_runtime_remedy(foreign, paths)
            or "two CUDA stacks are mixed: verify --tier static names the packages",
        )
    elif foreign:
        yield judged(
            "probe.libraries",
            "fail",
            expected=f"every CUDA library from {prefix}, or from the driver",
            found=", ".join(foreign[:4]),
            remedy=_runtime_remedy(foreign, paths) or "drop LD_LIBRARY_PATH and LD_PRELOAD: envlock run does",
        )
    else:
        yield judged("probe.libraries", "pass", found=f"{len(paths)} CUDA libraries, all from the environment")
    build = facts.answer("torch.build") or {}
    told = {"nccl": ".".join(map(str, build.get("nccl") or [])), "cudnn": _cudnn(build.get("cudnn"))}
    for name, locked in versions.items():
        if told.get(name) and not f"{locked}.".startswith(f"{told[name]}."):
            yield judged(
                f"probe.{name}",
                "fail",
                expected=f"{name} {locked}, as locked",
                found=told[name],
                remedy="another copy is loaded: see probe.libraries",
            )


def _runtime_remedy(foreign: Sequence[str], paths: Sequence[str]) -> str:
    """Return what to do about a CUDA runtime of the host's; nothing when it is another library that is foreign.

    sgl_kernel's load_utils.py (0.5.14) opens, by its path, the first libcudart of the toolkit it finds.
    """
    if not any(os.path.basename(path).startswith("libcudart.so") for path in foreign):
        return ""
    own = [path for path in paths if path not in foreign and os.path.basename(path).startswith("libcudart.so")]
    home = os.path.dirname(os.path.dirname(own[0])) if own else ""
    return (
        "drop LD_LIBRARY_PATH (envlock run does); sgl_kernel opens the libcudart of CUDA_HOME, CUDA_PATH, the nvcc on "
        "PATH or /usr/local/cuda, whichever is first: take the two out of [env], or hide that toolkit"
        + (f", or [env] set = {{ CUDA_HOME = {json.dumps(home)} }}, where the environment's own lies" if home else "")
    )


def _cudnn(number: Any) -> str:
    """Return `9.19.0` of 91900 (cudnn.h: major * 10000 + minor * 100 + patch since 9)."""
    if not isinstance(number, int):
        return ""
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _belongs(path: str, prefix: str) -> bool:
    name = os.path.basename(path)
    return path.startswith(f"{os.path.realpath(prefix)}/") or name.startswith(("libcuda.so", "libnvidia"))
