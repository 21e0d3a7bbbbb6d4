"""A launch is let through quickly only for GPUs that a passed verification covered: on a stand-in for a GPU host."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envlock.launch import ticket
from tests.launch.conftest import SHELLS, build
from tests.support import environments, gpu_host
from tests.support.gpu_host import GpuHost
from tests.support.index import serving
from tests.support.project import PYTHON, Project, Result
from tests.support.wheels import make_wheel

RAN = ("python", "-c", "import os; print('ran', os.environ.get('CUDA_VISIBLE_DEVICES', 'all'))")
UUID = "GPU-00000003-stand-in"
PROFILE = f"""
python = "{PYTHON}"
[torch]
version = "2.11.0"
cuda = "12.8"
[gpu]
compute-capability = "12.0"
"""
Launch = Callable[..., Result]


@pytest.fixture(scope="session")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("gpu-sets")
    wheels = folder / "wheels"
    wheels.mkdir()
    files: dict[str, str | bytes] = {**environments.torch_files("12.8"), "torch/__init__.py": gpu_host.TORCH}
    make_wheel(wheels, "torch", "2.11.0", requires=["nvidia-cuda-runtime-cu12==12.8.90"], files=files)
    make_wheel(wheels, "nvidia-cuda-runtime-cu12", "12.8.90")
    with serving(wheels) as index:
        project = build(folder, folder / "uv-cache", index.url)
        project.profile("gpu", PROFILE)
        project.profile("pinned", PROFILE + '[env]\nset = { CUDA_VISIBLE_DEVICES = "${CARDS}" }\n')
        project.ok("lock")
        project.ok("sync")
        yield project


@pytest.fixture
def host(synced: Project, tmp_path: Path) -> GpuHost:
    """Four cards, and nothing remembered of them."""
    if not gpu_host.available():
        pytest.skip("user namespaces are not allowed here")
    for name in ("gpu", "pinned"):
        ticket.forget(str(synced.layout.environments(name)))
        shutil.rmtree(synced.layout.attestations(name), ignore_errors=True)
    return GpuHost(synced, tmp_path / "host")


def ways(host: GpuHost) -> list[Launch]:
    """Return how a command can be launched: by `envlock run`, and by the shim under every shell there is."""

    def run(profile: str, **env: str) -> Result:
        return host.envlock("run", profile, "--", *RAN, **env)

    def shim(shell: list[str]) -> Launch:
        return lambda profile, **env: host.shim(profile, *RAN, shell=tuple(shell), **env)

    return [run, *(shim(words) for words in SHELLS if shutil.which(words[0]) is not None)]


def lasting(host: GpuHost, profile: str = "gpu") -> None:
    """Make the ticket's full scan count for the length of a test: the GPUs are what is looked at here."""
    ticket.renew(str(host.project.layout.environments(profile)), time.time() + 600)


def verified(host: GpuHost, profile: str = "gpu", **env: str) -> None:
    done = host.envlock("run", profile, "--", *RAN, **env)
    assert done.code == 0, done.err
    lasting(host, profile)
    assert host.told("asked")
    host.told("probes")


def quick(host: GpuHost, profile: str = "gpu", **env: str) -> None:
    """Every way to launch starts the command without asking the driver for anything."""
    for launch in ways(host):
        done = launch(profile, **env)
        assert done.code == 0, done.err
        assert done.out.startswith("ran")
        assert not host.told("asked")
        assert not host.told("probes")


def looked_at(host: GpuHost, profile: str = "gpu", *, code: int = 0, **env: str) -> list[str]:
    """Both ways to launch ask the driver first; return what was probed then."""
    kept = Path(ticket.folder(str(host.project.layout.environments(profile))))
    before = host.folder / "ticket"
    shutil.copytree(kept, before)
    probes: list[list[str]] = []
    for launch in ways(host)[:2]:
        done = launch(profile, **env)
        assert done.code == code, done.err
        assert ("ran" in done.out) is (code == 0)
        assert host.told("asked"), "it took the fast path"
        probes.append(host.told("probes"))
        shutil.rmtree(kept)
        shutil.copytree(before, kept)
    shutil.rmtree(before)
    return probes[0]


def test_a_profile_of_one_gpu_sees_four_and_all_four_are_probed(host: GpuHost) -> None:
    listed = host.envlock("run", "gpu", "--", *RAN)
    assert listed.out == "ran all\n", listed.err
    assert host.told("probes") == ["all"]
    kept = (host.project.layout.attestations("gpu") / host.project.prefix("gpu").name).read_text()
    assert kept.count("stand-in") == 4
    lasting(host)
    host.told("asked")
    quick(host)


def test_another_set_of_gpus_is_probed_before_it_is_launched_on(host: GpuHost) -> None:
    verified(host)
    assert looked_at(host, CUDA_VISIBLE_DEVICES="3") == ["3"]
    verified(host, CUDA_VISIBLE_DEVICES="3")
    quick(host, CUDA_VISIBLE_DEVICES="3")
    quick(host)  # what was verified before it still is
    assert looked_at(host, CUDA_VISIBLE_DEVICES="2,3") == ["2,3"]
    assert looked_at(host, CUDA_VISIBLE_DEVICES=f"{UUID},GPU-00000002") == []  # the same set, attested
    assert looked_at(host, CUDA_VISIBLE_DEVICES="1") == ["1"]


def test_the_same_gpu_in_other_words_is_attested_and_still_looked_at(host: GpuHost) -> None:
    verified(host, CUDA_VISIBLE_DEVICES="3")
    assert looked_at(host, CUDA_VISIBLE_DEVICES=UUID) == []
    assert looked_at(host, CUDA_VISIBLE_DEVICES=" 3") == []


@pytest.mark.parametrize(
    "words", ["", " ", "7", "-1", "0,7", "0,0", "x", "GPU-", "MIG-00000030", "0\n", "=\n\n", "0 1"]
)
def test_words_that_name_no_gpu_are_refused_after_any_verification(host: GpuHost, words: str) -> None:
    verified(host)
    verified(host, CUDA_VISIBLE_DEVICES="0")
    if words == "0\n":  # CUDA, too, reads past a line's end
        assert looked_at(host, CUDA_VISIBLE_DEVICES=words) == []
    else:
        looked_at(host, code=125, CUDA_VISIBLE_DEVICES=words)


@pytest.mark.parametrize("name", ["CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"])
def test_what_else_decides_which_gpus_are_seen_is_looked_at(host: GpuHost, name: str) -> None:
    verified(host)
    for words in ("PCI_BUS_ID", ""):
        looked_at(host, code=0, **{name: words})
    verified(host, "gpu", **{name: "PCI_BUS_ID"})
    quick(host, "gpu", **{name: "PCI_BUS_ID"})
    quick(host)


def test_what_the_profile_sets_is_what_counts(host: GpuHost) -> None:
    verified(host, "pinned", CARDS="0")
    quick(host, "pinned", CARDS="0")
    quick(host, "pinned", CARDS="0", CUDA_VISIBLE_DEVICES="3")  # the profile's word wins
    assert looked_at(host, "pinned", CARDS="3", CUDA_VISIBLE_DEVICES="0") == ["3"]
    looked_at(host, "pinned", code=125, CARDS="")


def test_what_is_given_for_one_launch_is_what_counts(host: GpuHost) -> None:
    verified(host)
    done = host.envlock("run", "--profile-env", "CUDA_VISIBLE_DEVICES=3", "gpu", "--", *RAN)
    assert done.out == "ran 3\n", done.err
    assert host.told("probes") == ["3"]
    done = host.envlock("run", "--profile-env", "CUDA_VISIBLE_DEVICES=", "gpu", "--", *RAN, CUDA_VISIBLE_DEVICES="0")
    assert done.code == 125
    assert "CUDA_VISIBLE_DEVICES is empty" in done.err
    host.told("probes")
    done = host.envlock("run", "--gpus", "1,2", "pinned", "--", *RAN, CARDS="0")
    assert done.out == "ran GPU-00000001-stand-in,GPU-00000002-stand-in\n", done.err
    assert host.told("probes") == ["GPU-00000001-stand-in,GPU-00000002-stand-in"]


def test_another_host_or_container_with_the_same_store_is_looked_at(host: GpuHost) -> None:
    verified(host)
    host.cards(2, 3)
    looked_at(host)
    host.cards(0, 1, 2, 3)
    quick(host)
    host.name = "another"
    looked_at(host)


def test_slices_of_a_card_are_never_launched_on_quickly(host: GpuHost) -> None:
    verified(host)
    (host.folder / "proc" / "nvidia" / "capabilities" / "gpu3" / "mig" / "gi7" / "ci0").mkdir(parents=True)
    looked_at(host)
    for _ in range(2):
        assert looked_at(host, CUDA_VISIBLE_DEVICES="3", STAND_IN_MIG="1") == ["3"]  # which slice cannot be told
    slice_ = "MIG-00000031-stand-in"
    assert looked_at(host, CUDA_VISIBLE_DEVICES=slice_, STAND_IN_MIG="1") == [slice_]
    assert looked_at(host, CUDA_VISIBLE_DEVICES=slice_, STAND_IN_MIG="1") == []  # its UUID is attested
    looked_at(host, code=125, CUDA_VISIBLE_DEVICES="MIG-0000003", STAND_IN_MIG="1")


def test_a_failed_verification_takes_the_fast_path_away(host: GpuHost) -> None:
    verified(host)
    failed = host.envlock("verify", "gpu", "--tier", "probe", "--fresh", STAND_IN_BROKEN="3")
    assert failed.code == 1
    host.told("asked")
    host.told("probes")
    looked_at(host, code=125, STAND_IN_BROKEN="3")
    refused = host.envlock("run", "gpu", "--", *RAN, STAND_IN_BROKEN="3")
    assert "this card is broken" in refused.err
    verified(host, CUDA_VISIBLE_DEVICES="0", STAND_IN_BROKEN="3")
    looked_at(host, code=125, STAND_IN_BROKEN="3")


def test_cards_that_cuda_numbers_otherwise_are_refused(host: GpuHost) -> None:
    refused = host.envlock("run", "gpu", "--", *RAN, CUDA_VISIBLE_DEVICES="0,1", STAND_IN_SWAPPED="1")
    assert refused.code == 125
    assert "probe.devices" in refused.err
    assert "00000003-stand-in" in refused.err
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in refused.err
    assert host.envlock("run", "gpu", "--", *RAN, STAND_IN_SWAPPED="1").code == 0  # all four, whatever their order


def test_a_shim_reads_no_words_of_the_caller(host: GpuHost) -> None:
    verified(host)
    for words in ("$(touch x)", "*", "'", '"', "`id`", "a)b", "\\"):
        looked_at(host, code=125, CUDA_VISIBLE_DEVICES=words, NVIDIA_VISIBLE_DEVICES=words)
    assert not (host.project.root / "x").exists()
