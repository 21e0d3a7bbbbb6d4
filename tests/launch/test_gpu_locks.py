"""Choosing GPUs by their words, and holding them against other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envlock.errors import LaunchRefused, UsageError
from envlock.launch.gpu_locks import Card, hold, holder, select

CARDS = tuple(Card(number, f"GPU-{number}a{number}b") for number in range(8))


@pytest.mark.parametrize(
    ("words", "numbers"),
    [("0", [0]), ("0-4", [0, 1, 2, 3, 4]), ("5,7", [5, 7]), ("7,0-1", [7, 0, 1]), ("1,1", [1]), ("GPU-3a3b", [3]),
     ("GPU-3,0", [3, 0])],
)  # fmt: skip
def test_words_mean_cards(words: str, numbers: list[int]) -> None:
    assert [card.number for card in select(words, CARDS)] == numbers


@pytest.mark.parametrize("words", ["8", "0-8", "", ",", "GPU-", "x", "3-1", "-1", "0-"])
def test_words_that_mean_no_card_are_a_usage_error(words: str) -> None:
    with pytest.raises(UsageError, match="no such GPU"):
        select(words, CARDS)


HOLD = (
    "import sys, os; from envlock.launch.gpu_locks import hold; "
    "hold(sys.argv[1], sys.argv[2].split(','), {'profile': 'other', 'pid': os.getpid(), 'user': 'eve', 'time': 'now'}); "
    "os.execv('/bin/sh', ['sh', '-c', 'echo held; sleep 60'])"
)


def test_a_card_is_held_through_exec_and_free_when_its_holder_dies(tmp_path: Path) -> None:
    folder = os.fspath(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder, "GPU-a,GPU-b"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    told = holder(folder, "GPU-a")
    assert told is not None
    assert (told["profile"], told["pid"]) == ("other", process.pid)
    with pytest.raises(LaunchRefused, match="GPU-b is held") as refused:
        hold(folder, ["GPU-c", "GPU-b"], {"profile": "mine"})
    assert "profile other" in str(refused.value.found)
    assert f"pid {process.pid}" in str(refused.value.found)
    assert holder(folder, "GPU-c") is None  # all or none
    os.killpg(process.pid, 9)
    process.communicate()
    assert holder(folder, "GPU-a") is None
    for handle in hold(folder, ["GPU-a", "GPU-b"], {"profile": "mine"}):
        os.close(handle)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "envlock-GPU-x").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    with pytest.raises(LaunchRefused, match="cannot be taken"):
        hold(os.fspath(tmp_path), ["GPU-x"], {})
    assert (tmp_path / "victim").read_text() == "precious"
