"""Small environments made by hand, as installers would leave them, and sealed as a sync would."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envlock.declare.profile import Gpu, Kernels, Profile, Torch, fingerprint, launch_inputs
from envlock.environment import inventory, seal, stamp
from envlock.environment.digests import DigestMemory
from envlock.environment.distributions import distributions, site_packages, torch_build
from envlock.environment.seal import Seal
from envlock.environment.sealing import take_stock
from envlock.environment.tree import scan
from envlock.lock.document import Artifact, Lock, Package, TorchBuild
from envlock.verify.check import Check
from envlock.verify.files import inspect_environment
from envlock.verify.static import static_checks
from tests.support import binaries as make

TORCH_EXPORTS = (
    "_ZN3c105ErrorD1Ev",
    "_ZN2at6detail9make_zeroEv",
    "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
)
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def fat(*targets: tuple[int, int, str], times: int = 1) -> bytes:
    return make.container(*(make.entry(kind, arch, suffix=suffix) for kind, arch, suffix in targets)) * times


def torch_files(cuda: str, exports: tuple[str, ...] = TORCH_EXPORTS) -> dict[str, bytes]:
    major = cuda.split(".", maxsplit=1)[0]
    return {
        "torch/__init__.py": b"",
        "torch/version.py": f"__version__ = '2.11.0+cu{cuda.replace('.', '')}'\ncuda: str | None = '{cuda}'\n".encode(),
        "torch/lib/libc10.so": make.library(defined=exports),
        "torch/lib/libtorch_cuda.so": make.library(
            fatbin=fat((make.SASS, 90, ""), (make.SASS, 120, ""), times=4), needed=[f"libcudart.so.{major}"]
        ),
    }


def install(
    prefix: Path, name: str, version: str, files: Mapping[str, bytes], *, requires: tuple[str, ...] = ()
) -> None:
    """Lay a distribution into a prefix, with METADATA and RECORD."""
    site = prefix / "lib" / f"python{MINOR}" / "site-packages"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\n".encode(),
    }
    record = ""
    for path, data in content.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    (site / info / "RECORD").write_text(f"{record}{info}/RECORD,,\n")


def make_prefix(prefix: Path) -> None:
    """Make an empty venv: a link to this interpreter and a pyvenv.cfg."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / f"python{MINOR}" / "site-packages").mkdir(parents=True)
    base = os.path.realpath(sys.executable)
    (prefix / "bin" / "python").symlink_to(base)
    (prefix / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(base)}\nversion = {sys.version.split()[0]}\ninclude-system-site-packages = false\n"
    )
    (prefix / "bin" / "tool").write_text(f"#!{prefix}/bin/python\nprint()\n")
    (prefix / "bin" / "tool").chmod(0o755)


PROFILE = Profile(
    name="stack",
    python=MINOR,
    torch=Torch(version="2.11.0", cuda="13.0"),
    gpu=Gpu(compute_capability="12.0"),
    kernels=Kernels(require=("kern",), accept_missing={"kern/hopper*": "launched with another backend"}),
)

KERNEL = make.library(
    fatbin=fat((make.SASS, 120, "a"), times=3), needed=["libc10.so", "libcudart.so.13"], undefined=TORCH_EXPORTS[:2]
)
HOPPER = make.library(fatbin=fat((make.SASS, 90, "a"), times=5), needed=["libc10.so"], undefined=TORCH_EXPORTS[:1])


def make_stack(prefix: Path) -> None:
    """Make a healthy little CUDA 13 stack for 12.0, with one library for Hopper alone that is accepted."""
    make_prefix(prefix)
    install(prefix, "torch", "2.11.0", torch_files("13.0"))
    install(
        prefix,
        "kern",
        "1.0",
        {"kern/common.abi3.so": KERNEL, "kern/hopper.abi3.so": HOPPER},
        requires=("torch==2.11.0",),
    )
    install(
        prefix,
        "nvidia-nccl-cu13",
        "2.28.9",
        {"nvidia/nccl/lib/libnccl.so.2": make.library(fatbin=fat((make.SASS, 120, "")))},
    )


def make_lock(prefix: Path, profile: Profile = PROFILE) -> Lock:
    found = distributions(site_packages(prefix))
    return Lock(
        profile=profile.name,
        profile_digest=fingerprint(profile),
        inputs={},
        python=MINOR,
        machine="x86_64",
        glibc="2.35",
        torch=TorchBuild(version="2.11.0", cuda="13.0", runtime="", driver_floor="580.65.06"),
        packages=tuple(
            Package(
                name=item.name,
                version=item.version,
                index="pypi",
                artifacts=(Artifact(file="x.whl", size=1, sha256="0"),),
            )
            for item in sorted(found, key=lambda item: item.name)
        ),
    )


def make_seal(prefix: Path, lock: Lock, profile: Profile = PROFILE) -> Seal:
    """Seal a prefix as a build does."""
    site = site_packages(prefix)
    stock = take_stock(prefix, site, distributions(site), scan(prefix, site), DigestMemory(prefix / "none"), {})
    made = Seal(
        profile=profile.name,
        generation=prefix.name,
        lock_digest="d" * 64,
        profile_digest=lock.profile_digest,
        environment_digest=stock.digest,
        prefix=str(prefix),
        python=sys.version.split()[0],
        base_python=os.path.realpath(sys.executable),
        glibc=lock.glibc,
        torch=torch_build(site),
        declared=launch_inputs(profile),
        driver_floor="580.65.06",
        packages=(),
        links="copy",
        files=stock.files,
        bytes=0,
        created="2026-01-01T00:00:00Z",
        envlock="0",
        uv="0",
    )
    cache = prefix.with_name(f".{prefix.name}.cache")
    inspected = inspect_environment(prefix, stock, cache, made.lock_digest)
    files = {inventory.FILE: stock.inventory, stamp.FILE: stock.stamp, **inspected}
    (prefix / "seal").mkdir()
    for name, content in files.items():
        (prefix / "seal" / name).write_bytes(content)
    made = replace(made, digests=seal.digests_of(files))
    (prefix / "seal" / "seal.json").write_text(seal.dump(made))
    return made


def judged(
    prefix: Path,
    lock: Lock | None,
    sealed: Seal | None,
    profile: Profile | None = PROFILE,
    *,
    deep: bool = False,
    driver: str | None = None,
) -> dict[str, Check]:
    """Return the static checks by id."""
    digest = None if lock is None else "d" * 64
    found = static_checks(prefix, profile=profile, lock=lock, lock_digest=digest, seal=sealed, deep=deep, driver=driver)
    return {check.id: check for check in found}
