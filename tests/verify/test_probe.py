"""The probe against a stand-in for torch: no GPU is needed to know what a crash, a hang or wrong numbers become.

The stand-in is a package named torch in a folder on PYTHONPATH; it computes nothing. What a real one does on a real GPU
is in docs/verified-on.md (tests/gpu/prove.sh).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from envlock.verify import probe
from envlock.verify.check import Check
from envlock.verify.probe import ProbeFacts
from envlock.verify.probe_checks import collective_checks, probe_checks


def stand_in(folder: Path, text: str) -> dict[str, str]:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(environ: dict[str, str], *, timeout: float = 30, fault: str = "") -> ProbeFacts:
    return probe.run(Path(sys.executable), environ, count=1, imports=(), triton=False, timeout=timeout, fault=fault)


def judge(facts: ProbeFacts, **told: Any) -> dict[str, Check]:
    expected: dict[str, Any] = {
        "prefix": "/env", "capability": "12.0", "cuda": "12.8", "count": 1, "versions": {}, "allocator": None,
    }  # fmt: skip
    return {check.id: check for check in probe_checks(facts, **{**expected, **told})}


def failed(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status == "fail"}


def test_a_crash_is_a_finding_with_the_signals_name_and_the_last_words(tmp_path: Path) -> None:
    facts = run(
        stand_in(tmp_path, "import os, sys, signal\nprint('last words', file=sys.stderr, flush=True)\n"
                           "os.kill(os.getpid(), signal.SIGSEGV)\n")
    )  # fmt: skip
    assert (facts.ended, facts.during) == ("SIGSEGV", "torch.import")
    check = judge(facts)["probe.end"]
    assert check.status == "fail"
    assert check.found == "SIGSEGV during torch.import"
    assert "last words" in check.where


def test_a_hang_ends_in_time(tmp_path: Path) -> None:
    facts = run(stand_in(tmp_path, "import time; time.sleep(600)"), timeout=2)
    assert facts.ended == "no end after 2 s"
    assert judge(facts)["probe.end"].found == "no end after 2 s during torch.import"


def test_what_a_library_prints_is_no_answer(tmp_path: Path) -> None:
    garbage = 'print(\'{"probe": "kernel.matmul", "ok": true, "found": "fine"}\\n\\x00\\xff\' * 1000)\n'
    facts = run(stand_in(tmp_path, f"{garbage}raise ImportError('libcublas.so.12: cannot open')"))
    assert [answer["probe"] for answer in facts.answers] == ["torch.import"]
    assert "libcublas.so.12" in judge(facts)["probe.torch"].found


def test_leaving_quietly_is_not_an_end(tmp_path: Path) -> None:
    facts = run(stand_in(tmp_path, "import os; os._exit(0)"))
    assert facts.ended == "an early end"
    assert failed(judge(facts)) == {"probe.end", "probe.torch"}


END: dict[str, Any] = {"probe": "end", "ok": True, "found": ""}


def told(*answers: dict[str, Any], ended: str = "normally") -> ProbeFacts:
    return ProbeFacts(answers=(*answers, END), ended=ended, during="", stderr="")


BUILD: dict[str, Any] = {
    "probe": "torch.build", "ok": True, "cuda": "12.8", "file": "/env/lib/torch/__init__.py", "found": "torch 2.10.0+cu128",
    "cudnn": 91002, "nccl": [2, 27, 5],
}  # fmt: skip
IMPORT = {"probe": "torch.import", "ok": True, "found": "/env/lib/torch/__init__.py"}
START = {"probe": "cuda.start", "ok": True, "found": "1 GPUs", "count": 1}
CARD = {"probe": "device", "ok": True, "device": 0, "found": "NVIDIA H200", "capability": "9.0"}
MAPS: dict[str, Any] = {"probe": "libraries", "ok": True, "found": "", "paths": ["/env/lib/libcudart.so.12"]}


def test_another_cuda_build_and_another_origin_fail() -> None:
    other = {**BUILD, "cuda": "13.0", "found": "torch 2.11.0+cu130, CUDA 13.0", "file": "/home/me/.local/torch.py"}
    checks = judge(told(IMPORT, other))
    assert failed(checks) == {"torch.cuda-build", "probe.origin"}
    assert checks["torch.cuda-build"].expected == "CUDA 12.8"


def test_another_gpu_than_declared_fails() -> None:
    checks = judge(told(IMPORT, BUILD, START, CARD))
    assert failed(checks) == {"probe.capability"}
    assert "9.0" in checks["probe.capability"].found
    assert "12.0" in checks["probe.capability"].expected


@pytest.mark.parametrize("words", ["all zeros", "not finite", "relative error 0.5"])
def test_wrong_numbers_fail(words: str) -> None:
    right = {"probe": "kernel.attention", "ok": True, "found": "relative error 0.001", "error": 0.001, "device": 0}
    wrong = {"probe": "kernel.matmul.bfloat16", "ok": False, "found": words, "error": None, "device": 0}
    checks = [check for check in probe_checks(
        told(IMPORT, BUILD, START, right, wrong), prefix="/env", capability=None, cuda=None, count=1, versions={},
        allocator=None,
    ) if check.id == "probe.kernels"]  # fmt: skip
    assert [check.status for check in checks] == ["fail", "pass"]
    assert words in checks[0].found
    assert "matmul.bfloat16" in checks[0].expected
    assert "attention" in checks[1].found


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/env/lib/libcudart.so.12", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"], set()),
        (["/env/lib/libcudart.so.12", "/env/lib/libcudart.so.13"], {"probe.libraries"}),
        (["/env/lib/libcudart.so.12", "/usr/local/cuda/lib64/libcupti.so.12"], {"probe.libraries"}),
        (["/environment/lib/libcudart.so.12"], {"probe.libraries"}),
    ],
)
def test_mixed_and_foreign_libraries_fail(paths: list[str], expected: set[str]) -> None:
    assert failed(judge(told(IMPORT, BUILD, {**MAPS, "paths": paths}))) == expected


def test_a_runtime_of_the_hosts_toolkit_says_who_opens_it_and_what_helps() -> None:
    """What sgl_kernel does on a host with /usr/local/cuda."""
    paths = ["/env/site-packages/nvidia/cu13/lib/libcudart.so.13", "/usr/local/cuda-13.0/lib64/libcudart.so.13"]
    check = judge(told(IMPORT, BUILD, {**MAPS, "paths": paths}))["probe.libraries"]
    assert check.status == "fail"
    assert "CUDA_HOME, CUDA_PATH, the nvcc on PATH or /usr/local/cuda" in check.remedy
    assert 'CUDA_HOME = "/env/site-packages/nvidia/cu13"' in check.remedy
    other = judge(told(IMPORT, BUILD, {**MAPS, "paths": [paths[0], "/usr/lib/libcudnn.so.9"]}))["probe.libraries"]
    assert "CUDA_HOME" not in other.remedy


def test_nccl_and_cudnn_are_held_against_the_lock() -> None:
    facts = told(IMPORT, BUILD, MAPS)
    assert failed(judge(facts, versions={"nccl": "2.27.5", "cudnn": "9.10.2.21"})) == set()
    assert failed(judge(facts, versions={"nccl": "2.28.9", "cudnn": "9.19.0.56"})) == {"probe.nccl", "probe.cudnn"}


def test_an_ignored_allocator_setting_fails() -> None:
    kept = {"probe": "allocator", "ok": True, "found": "", "settings": {"expandable_segments": "True"}}
    ignored = {**kept, "settings": {"expandable_segments": "False"}}
    assert failed(judge(told(IMPORT, BUILD, kept), allocator="expandable_segments:True")) == set()
    assert failed(judge(told(IMPORT, BUILD, ignored), allocator="expandable_segments:True")) == {"probe.allocator"}


def test_an_extension_for_another_torch_fails_by_name() -> None:
    broken = {"probe": "import.sgl_kernel", "ok": False, "found": "ImportError: undefined symbol: _ZN3c104cuda"}
    checks = judge(told(IMPORT, BUILD, broken))
    assert failed(checks) == {"probe.import"}
    assert checks["probe.import"].expected == "import sgl_kernel"


def test_an_all_reduce_needs_both_ranks() -> None:
    good = told({"probe": "collective", "ok": True, "found": "sum 3.0, expected 3.0", "device": 0})
    assert [check.status for check in collective_checks([good, good])] == ["pass"]
    hung = told(ended="no end after 90 s")
    found = collective_checks([good, hung])
    assert [check.status for check in found] == ["fail"]
    assert found[0].found == "rank 1: no end after 90 s"
    assert "NCCL_P2P_DISABLE" in found[0].remedy
    wrong = told({"probe": "collective", "ok": False, "found": "sum 1.0, expected 3.0", "device": 1})
    assert [check.found for check in collective_checks([good, wrong])] == ["rank 1: sum 1.0, expected 3.0"]


def test_one_rank_tells_no_more_than_it_tried() -> None:
    alone = told({"probe": "collective", "ok": True, "found": "sum 1.0, expected 1.0", "device": 0})
    (check,) = collective_checks([alone])
    assert check.status == "pass"
    assert "nothing was sent between GPUs" in check.found
    assert collective_checks([told(ended="SIGABRT")])[0].status == "fail"


@pytest.mark.parametrize("name", ["torch.build", "libraries", "allocator"])
def test_what_could_not_be_told_is_not_fine(name: str) -> None:
    answers = {item["probe"]: item for item in (IMPORT, BUILD, MAPS)}
    answers[name] = {"probe": name, "ok": False, "found": "AttributeError: gone"}
    checks = judge(told(*answers.values()), allocator="expandable_segments:True")
    assert len(failed(checks)) == 1
    assert all(checks[bad].found == "AttributeError: gone" for bad in failed(checks))


def test_a_setting_torch_does_not_tell_is_not_called_honoured() -> None:
    silent = {"probe": "allocator", "ok": True, "found": "", "settings": {"roundup_power2_divisions": "1"}}
    assert judge(told(IMPORT, BUILD, silent), allocator="expandable_segments:True")["probe.allocator"].status == "skip"


def test_an_exit_between_two_probes_is_not_an_end() -> None:
    facts = ProbeFacts(answers=(IMPORT, BUILD), ended="normally", during="", stderr="")
    assert judge(facts)["probe.end"].status == "fail"
