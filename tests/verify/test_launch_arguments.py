from __future__ import annotations

import pytest

from envlock.verify.launch_arguments import lint


@pytest.mark.parametrize(
    "words", [["--attention-backend", "fa3"], ["--attention-backend=flashmla"], ["--attention-backend", "trtllm_mha"]]
)
def test_backends_without_code_for_sm120_are_named(words: list[str]) -> None:
    found = lint(["python", "-m", "sglang.launch_server", *words], "12.0")
    assert len(found) == 1
    assert "12.0" in found[0].expected
    assert "flashinfer" in found[0].remedy


def test_what_runs_is_not_named() -> None:
    assert lint(["python", "--attention-backend", "flashinfer"], "12.0") == ()
    assert lint(["python", "--attention-backend", "fa3"], "9.0") == ()
    assert lint(["python", "train.py", "fa3"], "12.0") == ()


def test_the_pcie_all_reduce_and_expandable_segments_do_not_go_together() -> None:
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert len(lint(["serve", "--enable-pcie-oneshot-allreduce"], "12.0", environ=env)) == 1
    assert lint(["serve", "--enable-pcie-oneshot-allreduce"], "12.0", environ={}) == ()
