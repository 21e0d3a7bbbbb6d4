"""Launch arguments that name a backend without code for the GPU at hand, as data with sources. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envlock.verify.check import Check, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One option whose value some GPUs cannot run."""

    options: tuple[str, ...]
    values: tuple[str, ...]
    """Empty: the option itself is the trouble."""
    majors: tuple[int, ...]
    """Majors of the compute capabilities that cannot."""
    why: str
    instead: str


_ATTENTION = ("--attention-backend", "--prefill-attention-backend", "--decode-attention-backend",
              "--speculative-draft-attention-backend", "--mm-attention-backend")  # fmt: skip
# SM120 has neither WGMMA (SM90) nor tcgen05 and tensor memory (SM100): code for those cannot exist for it.
RULES = (
    Rule(
        options=_ATTENTION,
        values=("fa3",),
        majors=(10, 12),
        why="FlashAttention 3 is built for SM80 to SM90 only (sglang-kernel flash_ops)",
        instead="--attention-backend flashinfer, or triton",
    ),
    Rule(
        options=_ATTENTION,
        values=("flashmla", "cutlass_mla"),
        majors=(12,),
        why="FlashMLA has code for SM90 and SM100 only (sglang-kernel flashmla_ops; FlashMLA#124)",
        instead="--attention-backend flashinfer, or triton",
    ),
    Rule(
        options=_ATTENTION,
        values=("trtllm_mha", "trtllm_mla"),
        majors=(8, 9, 12),
        why="trtllm-gen kernels need SM100 (sglang#9140: only supported on Blackwell GPUs, SM100)",
        instead="--attention-backend flashinfer",
    ),
    Rule(
        options=_ATTENTION,
        values=("fa4",),
        majors=(8, 12),
        why="FlashAttention 4 is written for SM90 and SM100",
        instead="--attention-backend flashinfer, or triton",
    ),
    Rule(
        options=("--fp8-gemm-backend", "--fp8-gemm-runner-backend", "--moe-runner-backend"),
        values=("deep_gemm",),
        majors=(8, 12),
        why="DeepGEMM stops with `Unsupported architecture` there (DeepGEMM#236)",
        instead="auto, cutlass or triton",
    ),
    Rule(
        options=("--moe-runner-backend",),
        values=("flashinfer_trtllm",),
        majors=(8, 9, 12),
        why="trtllm-gen kernels need SM100 (flashinfer#3263)",
        instead="flashinfer_cutlass",
    ),
)


def lint(argv: Sequence[str], capability: str, *, environ: dict[str, str] | None = None) -> tuple[Check, ...]:
    """Return a warning for each argument that the GPU (`12.0`) cannot follow."""
    major = int(capability.partition(".")[0])
    found = [
        _warning(f"{option} {value}".strip(), rule, capability)
        for option, value in _options(argv)
        for rule in RULES
        if option in rule.options and major in rule.majors and (not rule.values or value in rule.values)
    ]
    allocator = (environ or {}).get("PYTORCH_CUDA_ALLOC_CONF", "") + (environ or {}).get("PYTORCH_ALLOC_CONF", "")
    if "expandable_segments:True" in allocator and "--enable-pcie-oneshot-allreduce" in argv:
        found.append(
            Check(
                id="launch.arguments",
                tier="static",
                status="warn",
                expected="one or the other",
                found="expandable_segments:True with --enable-pcie-oneshot-allreduce",
                remedy="it crashes in pcie_allreduce.cu: drop one of them",
            )
        )
    return tuple(found)


def _warning(words: str, rule: Rule, capability: str) -> Check:
    status: Status = "warn"
    return Check(
        id="launch.arguments",
        tier="static",
        status=status,
        expected=f"a backend with code for {capability}",
        found=f"{words}: {rule.why}",
        remedy=f"use {rule.instead}",
    )


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(argv):
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            following = argv[number + 1] if number + 1 < len(argv) and not argv[number + 1].startswith("--") else ""
            yield option, value if equals else following
