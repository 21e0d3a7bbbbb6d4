"""Judging what a probe told. Pure: facts in, checks out; a crash, a hang or garbage is a finding."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envlock.verify.check import Check
from envlock.verify.probe import ProbeFacts, uuids
from envlock.verify.probe_libraries import library_checks
from envlock.verify.probe_told import judged, untold
from envlock.verify.visible import Visible


def probe_checks(
    facts: ProbeFacts,
    *,
    prefix: str,
    capability: str | None,
    cuda: str | None,
    count: int,
    versions: Mapping[str, str],
    allocator: str | None,
) -> tuple[Check, ...]:
    """Return every check of the probe tier.

    `versions` are the locked versions of nccl and cudnn (as far as there are any), `allocator` the declared allocator
    settings, `capability` and `cuda` what the profile declares.
    """
    return (
        *_ending(facts),
        *_torch(facts, prefix, cuda),
        *_start(facts, capability, count),
        *_kernels(facts),
        *_imports(facts),
        *library_checks(facts, prefix, versions),
        *_allocator(facts, allocator),
    )


def device_checks(facts: ProbeFacts, seen: Visible) -> tuple[Check, ...]:
    """Hold the GPUs that CUDA showed against those that the driver's list and the variables promised."""
    told = uuids(facts)
    if not told or seen.wrong or seen.doubt:
        return ()
    expected = [device.uuid.partition("-")[2].lower() for device in seen.devices]
    if list(told) == expected[: len(told)] or (not seen.by_number and set(told) <= set(expected)):
        return (judged("probe.devices", "pass", found=f"{len(told)} GPUs, the ones that are meant"),)
    return (
        judged(
            "probe.devices",
            "fail",
            expected=", ".join(expected),
            found=", ".join(told),
            remedy="CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID: envlock run --gpus does",
        ),
    )


def collective_checks(ranks: Sequence[ProbeFacts]) -> tuple[Check, ...]:
    """Return the verdict on an all-reduce; over one rank it tells of NCCL's start and of nothing between GPUs."""
    several = "a two-rank all-reduce gives the sum" if len(ranks) > 1 else "NCCL starts, and sums over one rank"
    for number, facts in enumerate(ranks):
        answer = facts.answer("collective")
        if answer is None or not answer["ok"] or facts.ended != "normally":
            told = facts.ended if answer is None else str(answer["found"])
            return (
                judged(
                    "probe.collective",
                    "fail",
                    expected=several,
                    found=f"rank {number}: {told}",
                    where=facts.stderr,
                    remedy="try NCCL_P2P_DISABLE=1; if that helps, set iommu=pt and switch off ACS on the host"
                    if len(ranks) > 1
                    else "NCCL itself does not start here: NCCL_DEBUG=INFO tells more",
                ),
            )
    if len(ranks) > 1:
        return (judged("probe.collective", "pass", found="all-reduce over two ranks gave the right sum"),)
    found = "one GPU, one rank: NCCL started and gave the right sum; nothing was sent between GPUs"
    return (judged("probe.collective", "pass", found=found),)


def _ending(facts: ProbeFacts) -> Iterator[Check]:
    imported = facts.answer("torch.import")
    complete = facts.answer("end") is not None or (imported is not None and not imported["ok"])
    if facts.ended == "normally" and complete:
        yield judged("probe.end", "pass", found="every probe answered")
        return
    yield judged(
        "probe.end",
        "fail",
        expected="the probe runs to its end",
        found="an early end"
        if facts.ended == "normally"
        else f"{facts.ended}{f' during {facts.during}' if facts.during else ''}",
        where=facts.stderr,
        remedy="what it was doing then is what breaks; the last lines of its output stand beside it",
    )


def _torch(facts: ProbeFacts, prefix: str, cuda: str | None) -> Iterator[Check]:
    imported = facts.answer("torch.import")
    if imported is None or not imported["ok"]:
        found = "no answer" if imported is None else str(imported["found"])
        yield judged(
            "probe.torch",
            "fail",
            expected="import torch",
            found=found,
            remedy="verify --tier static names the library that is missing or foreign",
        )
        return
    build = facts.answer("torch.build")
    if build is None or not build["ok"]:
        if build is not None:
            yield untold("torch.cuda-build", build, "torch tells its version and CUDA")
        return
    if cuda is not None and build["cuda"] != cuda:
        yield judged(
            "torch.cuda-build",
            "fail",
            expected=f"CUDA {cuda}",
            found=str(build["found"]),
            where=str(build["file"]),
            remedy="envlock sync --rebuild",
        )
    else:
        yield judged("torch.cuda-build", "pass", expected=f"CUDA {cuda or 'any'}", found=str(build["found"]))
    if not os.path.realpath(str(build["file"])).startswith(f"{os.path.realpath(prefix)}/"):
        yield judged(
            "probe.origin",
            "fail",
            expected=f"torch from {prefix}",
            found=str(build["file"]),
            remedy="something on PYTHONPATH or in a .pth file comes first",
        )


def _start(facts: ProbeFacts, capability: str | None, count: int) -> Iterator[Check]:
    start = facts.answer("cuda.start")
    if start is None:
        return
    if not start["ok"]:
        yield judged(
            "probe.cuda",
            "fail",
            expected=f"{count} GPUs",
            found=str(start["found"]),
            remedy="verify --tier host tells which device, driver or variable is in the way",
        )
        return
    if int(start["count"]) < count:
        yield judged("probe.cuda", "fail", expected=f"{count} GPUs", found=str(start["found"]), remedy="see gpu.count")
    else:
        yield judged("probe.cuda", "pass", expected=f"{count} GPUs", found=str(start["found"]))
    devices = [answer for answer in facts.answers if answer["probe"] == "device"]
    wrong = [answer for answer in devices if capability is not None and answer["capability"] != capability]
    for answer in wrong:
        yield judged(
            "probe.capability",
            "fail",
            expected=f"compute capability {capability}",
            found=f"GPU {answer['device']} {answer['found']}: {answer['capability']}",
            remedy="run it on the GPUs it was made for, or change [gpu] compute-capability",
        )


def _kernels(facts: ProbeFacts) -> Iterator[Check]:
    answers = [answer for answer in facts.answers if answer["probe"].startswith("kernel.")]
    bad = [answer for answer in answers if not answer["ok"]]
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for answer in bad:
        alike.setdefault(str(answer["found"]), []).append(answer)
    for found, those in alike.items():
        names = sorted({str(answer["probe"]).removeprefix("kernel.") for answer in those})
        where = sorted({int(answer["device"]) for answer in those})
        yield judged(
            "probe.kernels",
            "fail",
            expected=f"the CPU's numbers from {', '.join(names)}",
            found=f"GPU {', '.join(map(str, where))}: {found}",
            remedy=_kernel_remedy(found),
        )
    good = sorted(
        {str(answer["probe"]).removeprefix("kernel.") for answer in answers}
        - {str(answer["probe"]).removeprefix("kernel.") for answer in bad}
    )
    if good:
        worst = max((answer.get("error") or 0.0 for answer in answers if answer["ok"]), default=0.0)
        yield judged("probe.kernels", "pass", found=f"{', '.join(good)}: right numbers (worst error {worst:.1g})")


def _kernel_remedy(found: str) -> str:
    lowered = found.lower()
    if "no kernel image" in lowered:
        return "this build has no code for this GPU: verify --tier static names the library"
    if "out of memory" in lowered:
        return "the GPU is full: end what holds its memory, or leave it out: envlock run --gpus"
    if "compiler" in lowered or "python.h" in lowered or "gcc" in lowered:
        return "Triton compiles at run time: install gcc and the Python headers"
    return "do not run on this stack: it computes wrong, or fails"


def _imports(facts: ProbeFacts) -> Iterator[Check]:
    for answer in facts.answers:
        kind, _, name = str(answer["probe"]).partition(".")
        if kind in ("import", "call"):
            yield judged(
                f"probe.{kind}",
                "pass" if answer["ok"] else "fail",
                expected=f"{kind} {name}",
                found=str(answer["found"]),
                remedy="" if answer["ok"] else "built for another torch, CUDA or GPU: verify --tier static tells which",
            )


def _allocator(facts: ProbeFacts, wanted: str | None) -> Iterator[Check]:
    answer = facts.answer("allocator")
    if answer is None or not wanted:
        return
    if not answer["ok"]:
        yield untold("probe.allocator", answer, wanted)
        return
    settings = answer["settings"]
    missed, silent = [], []
    for pair in wanted.split(","):
        key, _, value = pair.partition(":")
        told = settings.get(key.strip())
        if told is None:
            silent.append(key.strip())
        elif str(told).lower() != value.strip().lower():
            missed.append(f"{key.strip()} is {told}, not {value.strip()}")
    if missed:
        yield judged(
            "probe.allocator",
            "fail",
            expected=wanted,
            found="; ".join(missed),
            remedy="this torch reads another variable (PYTORCH_[CUDA_]ALLOC_CONF): envlock run sets the one it reads",
        )
    elif silent:
        words = f"this torch does not tell {', '.join(silent)}"
        yield judged("probe.allocator", "skip", expected=wanted, found=words)
    else:
        yield judged("probe.allocator", "pass", expected=wanted, found="honoured")
