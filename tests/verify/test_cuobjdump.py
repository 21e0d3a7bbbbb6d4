"""Agreement with NVIDIA's own tools: nvcc makes fixtures, cuobjdump lists them and every CUDA library of the stacks.

The tools come from PyPI where they are not on the PATH. Of the stacks' bare cubins a sample is compared, unless
ENVLOCK_WHOLE is set; shared libraries and archives always all.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.lock.files import read_lock
from envlock.resolve import uv
from envlock.verify.fatbin import DeviceCode
from envlock.verify.libraries import may_hold_code, read_file

pytestmark = pytest.mark.cuobjdump

REPOSITORY = Path(__file__).parents[2]
KERNEL = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
void launch(float *x, float *y, int n) { saxpy<<<(n + 255) / 256, 256>>>(2.f, x, y, n); }
"""
NVCC = ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl"]


def install(prefix: Path, *packages: str) -> Path:
    """Install packages without their dependencies and return the site-packages folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    python = prefix / "bin" / "python"
    if not python.exists():
        subprocess.run(
            [uv.binary(), "venv", "-q", "--python", os.path.realpath("/proc/self/exe"), prefix],
            check=True,
            env=environ,
        )
    subprocess.run(
        [uv.binary(), "pip", "install", "-q", "--no-deps", "--python", python, *packages], check=True, env=environ
    )
    return next(prefix.glob("lib/python3*/site-packages"))


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="session")
def cuobjdump(tools: Path) -> str:
    """Always PyPI's: older ones do not tell `f` targets."""
    site = install(tools, "nvidia-cuda-cuobjdump>=13.2")
    return str(next(site.glob("nvidia/**/bin/cuobjdump")))


@pytest.fixture(scope="session")
def nvcc(tools: Path) -> str:
    return shutil.which("nvcc") or str(next(install(tools, *NVCC).glob("nvidia/**/bin/nvcc")))


def listed(cuobjdump: str, path: Path) -> Counter[str]:
    """Return every entry cuobjdump tells of, as `kind sm_120f` (and the PTX ISA version of PTX)."""
    done = subprocess.run([cuobjdump, path], capture_output=True, text=True, check=False)
    blocks = re.findall(
        r"Fatbin (elf|ptx|nvvm) code:\n=+\narch = (?:sm|compute|lto)_(\w+)\ncode version = \[(\d+),(\d+)\]", done.stdout
    )
    return Counter(
        f"{kind} {arch}" + (f" {major}.{minor}" if kind == "ptx" else "") for kind, arch, major, minor in blocks
    )


def read(code: DeviceCode) -> Counter[str]:
    """Return the same of what envlock read."""
    kinds = {"sass": "elf", "ptx": "ptx", "lto": "nvvm", "unknown": "?"}
    found: Counter[str] = Counter()
    for container, number in code.containers:
        for target in container:
            version = f" {target.isa[0]}.{target.isa[1]}" if target.isa else ""
            found[f"{kinds[target.kind]} {target.arch}{target.suffix}{version}"] += number
    return found


FIXTURES = {
    "75": ["-gencode", "arch=compute_75,code=sm_75"],
    "90": ["-gencode", "arch=compute_90,code=[sm_90,compute_90]"],
    "90a": ["-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]"],
    "100": ["-gencode", "arch=compute_100,code=sm_100"],
    "100f": ["-gencode", "arch=compute_100f,code=[sm_100f,compute_100f]"],
    "120": ["-gencode", "arch=compute_120,code=[sm_120,compute_120]"],
    "120a": ["-gencode", "arch=compute_120a,code=[sm_120a,compute_120a]"],
    "120f": ["-gencode", "arch=compute_120f,code=[sm_120f,compute_120f]"],
    "121": ["-gencode", "arch=compute_121,code=sm_121"],
    "many": [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90a", "100f", "120a", "121")],
    "ptx": ["-gencode", "arch=compute_80,code=compute_80"],
    "lto": ["-rdc=true", "-gencode", "arch=compute_120,code=lto_120"],
    "packed": ["-gencode", "arch=compute_120f,code=[sm_120f,compute_120f]", "--compress-mode=speed"],
    "plain": ["-gencode", "arch=compute_120f,code=[sm_120f,compute_120f]", "--no-compress"],
}


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fixtures") / "kernel.cu"
    path.write_text(KERNEL)
    return path


@pytest.mark.parametrize("name", FIXTURES)
def test_what_nvcc_made_is_read_as_cuobjdump_reads_it(name: str, source: Path, nvcc: str, cuobjdump: str) -> None:
    relocatable = source.with_name(f"{name}.o")
    subprocess.run([nvcc, "-c", "-Xcompiler", "-fPIC", *FIXTURES[name], source, "-o", relocatable], check=True)
    archive = source.with_name(f"lib{name}.a")
    archive.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", archive, relocatable, relocatable], check=True)
    made = [relocatable, archive]
    if name != "lto":
        made.append(source.with_name(f"{name}.so"))
        subprocess.run(["g++", "-shared", "-nostdlib", "-o", made[-1], relocatable], check=True)
    for path in made:
        code = read_file(str(path)).code
        assert not code.problems
        assert read(code) == listed(cuobjdump, path)
        wanted = {"ptx": "80", "lto": "120", "packed": "120f", "plain": "120f", "many": "100f"}.get(name, name)
        assert any(entry.split(" ")[1] == wanted for entry in read(code))


@pytest.mark.parametrize("target", ["75", "90", "90a", "100f", "120", "120a", "120f", "121"])
def test_bare_cubins_tell_their_suffix_too(target: str, source: Path, nvcc: str, cuobjdump: str) -> None:
    path = source.with_name(f"{target}.cubin")
    subprocess.run([nvcc, "-cubin", f"-arch=sm_{target}", source, "-o", path], check=True)
    assert read(read_file(str(path)).code) == {f"elf {target}": 1}
    assert number_of(cuobjdump, path) == re.sub(r"\D", "", target)


def number_of(cuobjdump: str, path: Path) -> str:
    done = subprocess.run([cuobjdump, "--list-elf", path], capture_output=True, text=True, check=False)
    found = re.search(r"\.sm_(\d+)[af]?\.cubin", done.stdout)
    assert found, done.stdout
    return found[1]


@pytest.fixture(scope="session", params=["train-cu128", "sglang-cu130"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a shipped lock that bring native code, as they install."""
    lock, _ = read_lock(REPOSITORY / "locks" / f"{request.param}.toml", request.param)
    brings = re.compile(r"nvidia-.*|torch.*|triton|sg.*|flashinfer-cubin|xgrammar|tilelang|.*tvm.*|cuda-.*|numpy")
    wanted = [f"{package.name}=={package.version}" for package in lock.packages if brings.fullmatch(package.name)]
    return install(tmp_path_factory.mktemp("stack"), *wanted)


def holding(site: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(site):
        yield from (
            Path(folder, name) for name in names if may_hold_code(name) and not os.path.islink(Path(folder, name))
        )


def test_every_cuda_library_of_the_stacks_is_read_as_cuobjdump_reads_it(site: Path, cuobjdump: str) -> None:
    libraries = sorted(path for path in holding(site) if path.suffix != ".cubin")
    entries = 0
    for path in libraries:
        code = read_file(str(path)).code
        assert not code.problems, path
        if not code.containers and b"nv_fatbin" not in end_of(path):
            continue
        expected = listed(cuobjdump, path)
        assert read(code) == expected, path
        entries += sum(expected.values())
    print(f"{site}: {len(libraries)} libraries, {entries} entries agree")
    assert entries > 10_000


def end_of(path: Path) -> bytes:
    """Return the end of a library, where its section names are: cuobjdump need not see what names no device code."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 20)))
        return file.read()


def test_bare_cubins_of_the_stacks_have_cuobjdumps_number(site: Path, cuobjdump: str) -> None:
    cubins = sorted(path for path in holding(site) if path.suffix == ".cubin")
    step = 1 if os.environ.get("ENVLOCK_WHOLE") else max(1, len(cubins) // 60)
    for path in itertools.islice(cubins, 0, None, step):
        ((container, _),) = read_file(str(path)).code.containers
        assert str(container[0].arch) == number_of(cuobjdump, path)
        said = re.search(r"sm(\d+)([af]?)(?=[_.])", path.name)
        assert not said or str(container[0]) == f"sm_{said[1]}{said[2]}"
