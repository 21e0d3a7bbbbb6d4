"""A real one-node Slurm on loopback, with its own munge: daemons of this test only, all state in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")


def missing() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


class Slurm:
    """The cluster: `env` is what its commands need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
        self.env["PATH"] = f"{self.env['PATH']}:/usr/sbin:/sbin"

    def run(self, *words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in words], env=self.env, capture_output=True, text=True, check=False, timeout=timeout
        )

    def state(self) -> str:
        return self.run("sinfo", "-h", "-o", "%T").stdout.strip()

    def wait(self, *states: str, seconds: float = 40) -> str:
        end = time.monotonic() + seconds
        while (state := self.state()) not in states:
            assert time.monotonic() < end, f"the node is {state!r}, not {states}: {self.logs()}"
            time.sleep(0.2)
        return state

    def logs(self) -> str:
        return "\n".join(
            f"{path.name}:\n" + path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log")
        )

    def configure(self, more: str = "") -> None:
        """Write the configuration anew and let the daemons read it."""
        write(self.folder, self.ports, more)
        self.run("scontrol", "reconfigure")

    ports: tuple[int, int] = (0, 0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write(folder: Path, ports: tuple[int, int], more: str) -> None:
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(
        f"""ClusterName=loop
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
{more}
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=512 State=UNKNOWN
PartitionName=one Nodes={host} Default=YES State=UP MaxTime=INFINITE
"""
    )


@contextmanager
def cluster(folder: Path) -> Iterator[Slurm]:
    folder.mkdir(parents=True)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    slurm = Slurm(folder)
    slurm.ports = (free_port(), free_port())
    write(folder, slurm.ports, "")
    munged = [
        "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock",
        f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
    ]  # fmt: skip
    with ExitStack() as stack:
        for argv in (munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", socket.gethostname().partition(".")[0]]):
            said = stack.enter_context((folder / f"{argv[0]}.out.log").open("wb"))
            process = subprocess.Popen(argv, env=slurm.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            stack.callback(_end, process)
            if argv is munged:
                _until(folder / "munge.sock")
        slurm.wait("idle")
        yield slurm


def _until(path: Path) -> None:
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
