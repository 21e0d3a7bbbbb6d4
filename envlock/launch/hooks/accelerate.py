"""accelerate launch: it starts torch.distributed.run in its own process, so one launch covers every rank."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header, ranks, words


def files(target: Target) -> tuple[File, ...]:
    """Return a script that takes what `accelerate launch` takes."""
    count = ranks(target)
    on_cpu = "ACCELERATE_USE_CPU=true # the ranks talk over gloo\nexport ACCELERATE_USE_CPU\n" if target.no_gpu else ""
    text = f"""#!/bin/sh
{header(target, "accelerate")}# Every rank runs under the environment's Python:
#   {target.name}-accelerate [options of accelerate launch] train.py --lr 1e-4
ranks=${{NPROC_PER_NODE:-{count}}}
{on_cpu}[ "$ranks" -le 1 ] || set -- --multi_gpu "$@"
exec {words((*target.launch, "accelerate"))} launch --num_machines 1 --num_processes "$ranks" \\
	--mixed_precision "${{MIXED_PRECISION:-no}}" --dynamo_backend no "$@"
"""
    return (File(path=f"{target.name}-accelerate", text=text, executable=True),)


KIND = Kind(
    name="accelerate",
    purpose="a script in front of accelerate launch; reads NPROC_PER_NODE",
    files=files,
    after="{path} train.py ARGS",
    needs="accelerate",
)
