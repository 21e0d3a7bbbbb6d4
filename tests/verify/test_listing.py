from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envlock.environment.inventory import scan
from envlock.verify import listing

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for path in (
        "bin/tool",
        "pyvenv.cfg",
        f"{SITE}/torch/lib/libc10.so",
        f"{SITE}/torch/__pycache__/x.pyc",
        f"{SITE}/one.py",
        f"{SITE}/with space\nand line.txt",
        f"{SITE}/-print",
        "lib/python3.11/other.txt",
        "share/man/x.1",
    ):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path)
    (tmp_path / os.fsdecode(b"share/\xff\xfe")).write_text("no UTF-8")
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/python3")
    text = listing.of(scan(tmp_path))
    (tmp_path / "seal").mkdir()
    (tmp_path / "seal" / listing.FILE).write_bytes(text)
    return tmp_path


def test_nothing_changed(prefix: Path) -> None:
    assert listing.same(prefix)
    (prefix / SITE / "torch" / "__pycache__" / "y.pyc").write_text("byte code comes and goes")
    (prefix / "seal" / "more").write_text("so does what lies in the seal")
    assert listing.same(prefix)


def relink(prefix: Path) -> None:
    (prefix / "bin" / "python").unlink()
    (prefix / "bin" / "python").symlink_to("/usr/bin/python4")


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda prefix: (prefix / SITE / "one.py").write_text("more than there was before"),
    "touched": lambda prefix: os.utime(prefix / SITE / "one.py", ns=(1, 1)),
    "gone": lambda prefix: (prefix / SITE / "torch" / "lib" / "libc10.so").unlink(),
    "gone from the top": lambda prefix: (prefix / "pyvenv.cfg").unlink(),
    "new": lambda prefix: (prefix / SITE / "torch" / "new.py").write_text(""),
    "new at the top of site-packages": lambda prefix: (prefix / SITE / "zzz.pth").write_text("import os"),
    "new at the top": lambda prefix: (prefix / "extra").write_text(""),
    "another link": relink,
    "renamed": lambda prefix: (prefix / SITE / "one.py").rename(prefix / SITE / "two.py"),
    "no listing": lambda prefix: (prefix / "seal" / listing.FILE).unlink(),
    "no true listing": lambda prefix: (prefix / "seal" / listing.FILE).write_text("envlock-listing 1 [\n"),
    "a listing of another envlock": lambda prefix: (prefix / "seal" / listing.FILE).write_text(
        "envlock-listing 2 {}\n"
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen(name: str, prefix: Path) -> None:
    CHANGES[name](prefix)
    assert not listing.same(prefix)
