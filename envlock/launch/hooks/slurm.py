"""Slurm: a job script, a task prolog that ends tasks on a node that is not in order, and a prolog for the node."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header, words


def files(target: Target) -> tuple[File, ...]:
    """Return job script, task prolog and prolog."""
    moved = f"ENVLOCK_HOME={words((target.home,))}\nexport ENVLOCK_HOME\n" if target.moved else ""
    return (
        File(path=f"{target.name}.sbatch", text=_job(target)),
        File(path=f"{target.name}-task-prolog", text=_task_prolog(target), executable=True),
        File(path=f"{target.name}-prolog", text=_prolog(target, moved), executable=True),
    )


def _job(target: Target) -> str:
    gpus = f"#SBATCH --gpus-per-node={target.gpus}\n" if target.gpus and not target.no_gpu else ""
    command = target.command or ("torchrun", "--nproc-per-node", str(target.gpus or 1), "train.py")
    task_prolog = f"{target.folder}/{target.name}-task-prolog"
    return f"""#!/bin/sh
#SBATCH --job-name={target.name}
#SBATCH --comment=envlock:{target.name}
#SBATCH --ntasks-per-node=1
{gpus}{header(target, "slurm")}
# One task a node, launched through envlock there; the task prolog ends the task where the environment is not in order.
exec srun --kill-on-bad-exit=1 --task-prolog={words((task_prolog,))} \\
	{words((*target.launch, *command))}
"""


def _task_prolog(target: Target) -> str:
    return f"""#!/bin/sh
{header(target, "slurm")}# srun --task-prolog: runs before each task, as the job's user, with no PATH to rely on.
# A line `print ...` on stdout is shown to the user; a non-zero exit ends the task.
PATH=/usr/local/bin:/usr/bin:/bin
export PATH
if said=$({words((*target.launch, "true"))} 2>&1); then
	exit 0
fi
echo "print envlock: $(uname -n) refuses to launch {target.name}:"
printf '%s\\n' "$said" | while IFS= read -r line; do
	echo "print $line"
done
exit 1
"""


def _prolog(target: Target, moved: str) -> str:
    return f"""#!/bin/sh
{header(target, "slurm")}# Prolog= in slurm.conf: runs as root on a node before a job's first step there, without PATH.
# It acts only for jobs that say `--comment=envlock:{target.name}`. A non-zero exit makes Slurm drain the node and put
# the job back: right where every job of the node uses this profile; elsewhere the task prolog is the better choice.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
{moved}[ "${{SLURM_JOB_COMMENT-}}" = envlock:{target.name} ] || exit 0
# As the job's user: what verification writes down must stay his.
exec runuser -u "${{SLURM_JOB_USER:-root}}" -- {words(target.verify)}
"""


KIND = Kind(
    name="slurm",
    purpose="a job script with a task prolog, and a prolog for the nodes",
    files=files,
    after="sbatch {folder}/{name}.sbatch   (the prolog belongs into slurm.conf: Prolog={folder}/{name}-prolog)",
    takes_command=True,
    several=True,
)
