"""A passed probe holds for exactly what it was reached under, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlock.verify import attestation

NOW = attestation.basis(seal="ab" * 32, driver="580.95.05", gpus=["GPU-b", "GPU-a"], boot="5f1c", declared="d1")


def test_it_holds_for_what_it_was_reached_under(tmp_path: Path) -> None:
    path = tmp_path / "attestations" / "0001-aa"
    assert not attestation.holds(path, NOW)
    attestation.remember(path, NOW, time="2026-12-01T12:00:00Z")
    same = attestation.basis(seal="ab" * 32, driver="580.95.05", gpus=["GPU-a", "GPU-b"], boot="5f1c", declared="d1")
    assert attestation.holds(path, same)
    assert (attestation.read(path) or {})["time"] == "2026-12-01T12:00:00Z"


@pytest.mark.parametrize(
    "changed", [{"seal": "cd" * 32}, {"driver": "580.95.06"}, {"gpus": "GPU-a"}, {"boot": "77"}, {"boot": ""}]
)
def test_anything_else_probes_again(tmp_path: Path, changed: dict[str, str]) -> None:
    attestation.remember(tmp_path / "one", NOW, time="t")
    assert not attestation.holds(tmp_path / "one", {**NOW, **changed})


@pytest.mark.parametrize(
    "damaged", ["", "seal\n", "seal x\ndriver y\n", "\x00\xff", "seal x\ndriver y\ngpus z\nboot \n"]
)
def test_a_damaged_file_is_no_attestation(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "one"
    path.write_text(damaged, encoding="latin-1")
    assert attestation.read(path) is None
    assert not attestation.holds(path, NOW)


def test_a_failure_is_forgotten_not_remembered(tmp_path: Path) -> None:
    attestation.remember(tmp_path / "one", NOW, time="t")
    attestation.forget(tmp_path / "one")
    attestation.forget(tmp_path / "one")
    assert attestation.read(tmp_path / "one") is None
