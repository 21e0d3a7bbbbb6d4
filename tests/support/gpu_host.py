"""A stand-in for a host with four NVIDIA cards: kernel module, device nodes, NVML and a torch that computes nothing.

User namespaces stand for the kernel's side (gpu_host.sh), a small library for NVML (tests/launch/stand_in_nvml.c). The
torch writes down each probe, and shows the cards that CUDA_VISIBLE_DEVICES names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.project import Project, Result

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)\n"
NVML = Path(__file__).parent.parent / "launch" / "stand_in_nvml.c"
TORCH = """
import os, sys, types
from torch import version
from torch.version import __version__

class Fits:
    \"\"\"Whatever is asked of it, the answer fits.\"\"\"
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
    def __float__(self): return 0.0
    __matmul__ = __mul__ = __rmul__ = __sub__ = __truediv__ = __add__ = __eq__ = __call__

def shown():
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = "0,1,2,3" if words is None else words
    return [int(word.rpartition("-")[2] or 0) if word.isdigit() else int(word.split("-")[1]) for word in words.split(",")]

def properties(at):
    number = shown()[at]
    number = 3 - number if "STAND_IN_SWAPPED" in os.environ else number
    return types.SimpleNamespace(uuid=f"{number:08d}-stand-in")

if sys.argv[0].endswith("probe_program.py"):
    with open(os.environ["STAND_IN_PROBES"], "a") as file:
        print(os.environ.get("CUDA_VISIBLE_DEVICES", "all"), file=file)
    if os.environ.get("STAND_IN_BROKEN") in map(str, shown()):
        raise ImportError("this card is broken")

fits = Fits()
manual_seed = randn = isfinite = empty_like = rsqrt = fits
float32 = bfloat16 = "a type"
nn = types.SimpleNamespace(functional=fits)
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(is_available=lambda: False))
cuda = types.SimpleNamespace(
    device_count=lambda: len(shown()), is_available=lambda: True, get_arch_list=lambda: [],
    get_device_capability=lambda at: (12, 0), get_device_name=lambda at: "Stand-in", get_device_properties=properties,
    memory=types.SimpleNamespace(_snapshot=lambda: {"allocator_settings": {}}),
)
"""


def available() -> bool:
    """Tell whether this kernel lets us have namespaces."""
    return (
        subprocess.run(["unshare", "-Urmu", "mount", "-t", "tmpfs", "none", "/proc/driver"], check=False).returncode
        == 0
    )


@dataclass
class GpuHost:
    """Where commands of a project find four cards, or fewer."""

    project: Project
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    name: str = "stand-in"

    def __post_init__(self) -> None:
        nvidia = self.folder / "proc" / "nvidia"
        (self.folder / "dev").mkdir(parents=True)
        nvidia.mkdir(parents=True)
        (nvidia / "version").write_text(DRIVER)
        self.cards(0, 1, 2, 3)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.folder / "libnvidia-ml.so.1", NVML], check=True)
        self.env |= {
            "LD_LIBRARY_PATH": str(self.folder),
            "STAND_IN_LOG": str(self.folder / "asked"),
            "STAND_IN_PROBES": str(self.folder / "probes"),
            "STAND_IN_PYTHON": sys.executable,
            "ENVLOCK_GPU_LOCKS": str(self.folder),
        }

    def cards(self, *numbers: int) -> None:
        """Have device nodes for these cards only, as a container has."""
        (self.folder / "nodes").write_text("".join(f"nvidia{name}\n" for name in ("ctl", "-uvm", *numbers)))
        for number in range(4):
            card = self.folder / "proc" / "nvidia" / "gpus" / f"0000:0{number}:00.0"
            card.mkdir(parents=True, exist_ok=True)
            (card / "information").write_text(f"Device Minor: \t {number}\n" if number in numbers else "")

    def start(self, argv: list[str], env: dict[str, str]) -> Result:
        inside = ["unshare", "-Urmu", "sh", str(Path(__file__).with_suffix(".sh")), str(self.folder), self.name]
        done = subprocess.run(
            [*inside, *argv],
            env={**self.project.env, **self.env, **env},
            cwd=self.project.root,
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def envlock(self, *words: str, **env: str) -> Result:
        return self.start([sys.executable, "-m", "envlock", *words], env)

    def shim(self, profile: str, *words: str, shell: tuple[str, ...] = (), **env: str) -> Result:
        return self.start([*shell, os.fspath(self.project.layout.shim(profile)), *words], env)

    def told(self, name: str) -> list[str]:
        """Return the lines that were written down since this was last looked at: `asked` or `probes`."""
        path = self.folder / name
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines
