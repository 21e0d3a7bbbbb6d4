"""torchrun: the environment's own, its ranks under the environment's Python."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header, ranks, words


def files(target: Target) -> tuple[File, ...]:
    """Return a script that takes what torchrun takes."""
    run = words((*target.launch, "torchrun"))
    processes = f'--nproc-per-node "${{NPROC_PER_NODE:-{ranks(target)}}}"'
    if target.each_rank:
        how = f"""# Each rank is launched through envlock again (--no-python), and refused by itself where not in order:
#   {target.name}-torchrun [torchrun's options] train.py --lr 1e-4          (options as --name=value)
options=
while :; do
	case ${{1-}} in
	-m) break ;;
	-*)
		options="$options $1"
		shift
		;;
	*) break ;;
	esac
done
# shellcheck disable=SC2086 # torchrun's options hold no spaces
exec {run} {processes} $options --no-python {words((*target.launch, "python"))} "$@"
"""
    else:
        how = f"""# Every rank runs under the environment's Python (PYTHON_EXEC says so to torchrun):
#   {target.name}-torchrun [torchrun's options] train.py --lr 1e-4
exec {run} {processes} "$@"
"""
    text = f"#!/bin/sh\n{header(target, 'torchrun')}{how}"
    return (File(path=f"{target.name}-torchrun", text=text, executable=True),)


KIND = Kind(
    name="torchrun",
    purpose="a script in front of torchrun; reads NPROC_PER_NODE",
    files=files,
    after="{path} train.py ARGS",
    needs="torch",
)
