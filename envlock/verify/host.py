"""The machine as /proc, /dev and the limits tell it. Nothing here opens a CUDA context or starts a process."""

from __future__ import annotations

import os
import re
import resource
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from envlock.verify.machine import Machine, Node

# Variables of the caller that decide what a GPU program loads or sees.
WATCHED = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME",
    "CUDA_PATH", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_PTX_JIT", "CUDA_LAUNCH_BLOCKING",
    "FLASHINFER_DISABLE_VERSION_CHECK",
)  # fmt: skip
# Where the dynamic loader finds the driver's libraries on Debian, Ubuntu, and with NVIDIA's container toolkit.
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
)  # fmt: skip
# What an environment brings itself, and what only the driver has: names as they begin.
_OF_INTEREST = re.compile(
    r"lib(cuda|nvidia-|cudart|cublas|cudnn|nccl|nvrtc|nvJitLink|nvjitlink|cusparse|cufft|cusolver|curand|cupti|nvshmem|cufile"
    r"|npp|nvToolsExt|torch|c10|caffe2|triton|stdc\+\+|gcc_s|gomp|iomp5|python3)[\w+.-]*\.so"
)
_LIBCUDA = re.compile(r"libcuda\.so\.([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
_MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")


def observe(environ: Mapping[str, str], *, root: Path = Path("/")) -> Machine:
    """Return what a machine tells; `root` is where its /proc, /dev and /usr are (another machine's, in a test)."""
    version = _read(root / "proc/driver/nvidia/version")
    module = _MODULE.search(version)
    shm = _statvfs(root / "dev/shm")
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return Machine(
        kernel_driver=module[1] if module else None,
        open_modules=None if not version else "Open Kernel Module" in version,
        user_libraries=_user_libraries(root),
        nodes=tuple(_node(root, path) for path in _expected_nodes(root)),
        majors=_majors(_read(root / "proc/devices")),
        shm_total=shm[0],
        shm_free=shm[1],
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        iommu=" ".join(word for word in _read(root / "proc/cmdline").split() if "iommu" in word),
        environ={name: environ[name] for name in WATCHED if name in environ},
        loader_path=dict(_loader_path(environ.get("LD_LIBRARY_PATH", ""), root)),
        boot_id=_read(root / "proc/sys/kernel/random/boot_id").strip(),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _statvfs(path: Path) -> tuple[int, int]:
    try:
        told = os.statvfs(path)
    except OSError:
        return (0, 0)
    return (told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize)


def _user_libraries(root: Path) -> tuple[str, ...]:
    found = set()
    for folder in LIBRARY_FOLDERS:
        try:
            names = os.listdir(root / folder.lstrip("/"))
        except OSError:
            continue
        found |= {match[1] for name in names if (match := _LIBCUDA.fullmatch(name))}
    return tuple(sorted(found))


def _loader_path(setting: str, root: Path) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """Yield each folder of the loader's path with what it holds that matters; an empty one is the current folder."""
    for folder in dict.fromkeys(setting.split(":")) if setting else ():
        place = root / folder.lstrip("/") if folder.startswith("/") else Path(folder or ".")
        found: set[str] = set()
        try:
            for below in (place, *sorted(place.glob("glibc-hwcaps/*"))):
                found |= {_called(below / name) for name in os.listdir(below) if _OF_INTEREST.match(name)}
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            yield folder, None
            continue
        yield folder, tuple(sorted(found))


def _called(path: Path) -> str:
    """Return a library's name, of the driver's CUDA library the one with its version."""
    return os.path.basename(os.path.realpath(path)) if path.name.startswith("libcuda.so") else path.name


def _expected_nodes(root: Path) -> list[str]:
    """Return the device nodes CUDA needs: one a GPU that the driver lists, and the control nodes."""
    gpus = []
    folder = root / "proc/driver/nvidia/gpus"
    for gpu in sorted(folder.iterdir()) if folder.is_dir() else ():
        minor = re.search(r"Device Minor:\s*([0-9]+)", _read(gpu / "information"))
        if minor:
            gpus.append(f"/dev/nvidia{minor[1]}")
    return ["/dev/nvidiactl", "/dev/nvidia-uvm", *gpus] if gpus or _read(root / "proc/driver/nvidia/version") else []


def _node(root: Path, path: str) -> Node:
    real = root / path.lstrip("/")
    try:
        status = real.stat()
    except OSError as error:
        return Node(path=path, major=None, error=error.strerror or str(error))
    if not stat.S_ISCHR(status.st_mode):
        return Node(path=path, major=None, error="not a character device")
    try:
        os.close(os.open(real, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return Node(path=path, major=os.major(status.st_rdev), error=error.strerror or str(error))
    return Node(path=path, major=os.major(status.st_rdev), openable=True)


def _majors(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.partition("Block devices:")[0].splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdecimal() and words[1].startswith("nvidia"):
            name = "nvidia" if words[1] in ("nvidia-frontend", "nvidia") else words[1]
            found[name] = int(words[0])
    return found
