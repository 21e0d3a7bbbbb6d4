"""Make a sealed generation of an interpreter's venv that is already on a GPU machine without a network.

Such a machine cannot sync (no wheels), but everything after sync can be proved on it: usage

    python tests/gpu/seal_by_hand.py PROJECT VENV CAPABILITY

hard-links the venv into PROJECT's store as generation 0001 of profile `gpu`, writes a profile and a lock for it, and
seals it with the same code that sync uses. The artifacts' hashes are made up from names: nothing here is downloaded.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from envlock.declare.files import load_profile
from envlock.declare.profile import fingerprint, lock_inputs
from envlock.environment import store
from envlock.environment.build import Plan, seal_tree
from envlock.environment.digests import DigestMemory
from envlock.environment.distributions import distributions, site_packages, torch_build
from envlock.environment.interpreter import Interpreter
from envlock.environment.sealing import take_stock
from envlock.environment.tree import scan
from envlock.layout import Layout
from envlock.lock import text
from envlock.lock.cuda import driver_floor
from envlock.lock.document import Artifact, Lock, Package, TorchBuild
from envlock.verify.files import inspect_environment
from envlock.workflows.sync import launch_files, write_shim


def _start_here(prefix: Path, venv: Path) -> None:
    """Let the copy's console scripts start the copy's interpreter (each beside and renamed: the venv keeps its own)."""
    old, new = f"{venv}/bin/".encode(), f"{prefix}/bin/".encode()
    for script in (prefix / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if content.startswith(b"#!") and old in content[:400]:
            beside = script.with_name(f".{script.name}.part")
            beside.write_bytes(content.replace(old, new, 2))
            beside.chmod(0o755)
            beside.replace(script)


def main(project: Path, venv: Path, capability: str) -> None:
    layout = Layout(project)
    for folder in (layout.profiles, layout.locks):
        folder.mkdir(parents=True, exist_ok=True)
    version = ".".join(map(str, sys.version_info[:2]))
    torch = torch_build(site_packages(venv))
    assert torch is not None
    assert torch.cuda is not None
    layout.profile("gpu").write_text(
        f'python = "{version}"\n[torch]\nversion = "{torch.distribution}"\ncuda = "{torch.cuda}"\n'
        f'[gpu]\ncompute-capability = "{capability}"\n[kernels]\nrequire = ["torch"]\n'
        '[env.set]\nPYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"\n'
    )
    profile = load_profile(layout, "gpu")
    found = tuple(distributions(site_packages(venv)))
    packages = tuple(
        Package(
            name=item.name,
            version=item.version,
            index="pypi",
            artifacts=(
                Artifact(
                    file=f"{item.name.replace('-', '_')}-{item.version}-py3-none-any.whl",
                    size=None,
                    sha256=hashlib.sha256(item.folder.encode()).hexdigest(),
                ),
            ),
        )
        for item in sorted({item.name: item for item in found}.values(), key=lambda item: item.name)
    )
    lock = Lock(
        profile="gpu",
        profile_digest=fingerprint(profile),
        inputs=lock_inputs(profile),
        python=version,
        machine="x86_64",
        glibc=profile.platform.glibc,
        torch=TorchBuild(
            version=torch.distribution,
            cuda=torch.cuda,
            runtime="torch/version.py",
            driver_floor=driver_floor(torch.cuda),
        ),
        packages=packages,
    )
    content = text.dump(lock).encode()
    layout.lock("gpu").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    generation = store.next_generation(layout, "gpu", digest)
    prefix = layout.generation("gpu", generation)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-al", venv, prefix], check=True)
    _start_here(prefix, venv)
    site = site_packages(prefix)
    stock = take_stock(prefix, site, tuple(distributions(site)), scan(prefix, site), DigestMemory(layout.cache), {})
    plan = Plan(
        profile=profile,
        lock=lock,
        lock_text=content,
        lock_digest=digest,
        urls={},
        interpreter=Interpreter(
            path=Path(sys.base_prefix) / "bin" / f"python{version}", version=sys.version.split()[0]
        ),
        environ={},
        seal_files=[launch_files, lambda prefix, stock: inspect_environment(prefix, stock, layout.cache, digest)],
    )
    made = seal_tree(plan, prefix, generation, stock, "hardlink")
    store.point_current(layout, "gpu", generation)
    write_shim(layout, "gpu")
    print(f"sealed {made.generation}: {made.files} files, torch {torch.version}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]), sys.argv[3])
