from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envlock.environment import stamp
from envlock.environment.tree import Tree, scan

SITE = "lib/python3.11/site-packages"


def stamped(tree: Tree) -> bytes:
    files = stamp.lines((path, found.size, found.mtime_ns) for path, found in tree.files.items())
    folders = stamp.lines((path, None, mtime) for path, mtime in tree.folders.items())
    return stamp.of([files, folders], [path for path in (*tree.files, *tree.folders) if "/" not in path])


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for path in (
        "bin/tool",
        "pyvenv.cfg",
        f"{SITE}/torch/lib/libc10.so",
        f"{SITE}/torch/__pycache__/x.pyc",
        f"{SITE}/one.py",
        f"{SITE}/with space\nand line.txt",
        f"{SITE}/back\\nslash\\",
        f"{SITE}/-print",
        "lib/python3.11/other.txt",
        "share/man/x.1",
    ):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path)
    (tmp_path / os.fsdecode(b"share/\xff\xfe")).write_text("no UTF-8")
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/python3")
    for number in range(1_500):  # with their long names enough for a second process
        (tmp_path / SITE / "torch" / f"{number:0200}").touch()
    text = stamped(scan(tmp_path))
    (tmp_path / "seal").mkdir()
    (tmp_path / "seal" / stamp.FILE).write_bytes(text)
    return tmp_path


def test_nothing_changed(prefix: Path) -> None:
    assert stamp.unchanged(str(prefix))
    (prefix / SITE / "torch" / "__pycache__" / "y.pyc").write_text("byte code comes and goes")
    (prefix / "seal" / "more").write_text("so does what lies in the seal")
    assert stamp.unchanged(str(prefix))


def test_in_one_process_as_in_several(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    assert stamp.unchanged(str(prefix))
    (prefix / SITE / "torch" / f"{1_499:0200}").write_text("x")
    assert not stamp.unchanged(str(prefix))


def test_no_child_is_left(prefix: Path) -> None:
    stamp.unchanged(str(prefix))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def relink(prefix: Path) -> None:
    (prefix / "bin" / "python").unlink()
    (prefix / "bin" / "python").symlink_to("/usr/bin/python4")


def piped(prefix: Path) -> None:
    (prefix / "seal" / stamp.FILE).unlink()
    os.mkfifo(prefix / "seal" / stamp.FILE)


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda prefix: (prefix / SITE / "one.py").write_text("more than there was before"),
    "touched": lambda prefix: os.utime(prefix / SITE / "one.py", ns=(1, 1)),
    "gone": lambda prefix: (prefix / SITE / "torch" / "lib" / "libc10.so").unlink(),
    "gone from the top": lambda prefix: (prefix / "pyvenv.cfg").unlink(),
    "new": lambda prefix: (prefix / SITE / "torch" / "new.py").write_text(""),
    "new at the top of site-packages": lambda prefix: (prefix / SITE / "zzz.pth").write_text("import os"),
    "a line's end in the name": lambda prefix: (prefix / SITE / "with space\nand line.txt").write_text("x"),
    "a backslash in the name": lambda prefix: (prefix / SITE / "back\\nslash\\").write_text("x"),
    "the last of many": lambda prefix: (prefix / SITE / "torch" / f"{1_499:0200}").write_text("x"),
    "new at the top": lambda prefix: (prefix / "extra").write_text(""),
    "another link": relink,
    "renamed": lambda prefix: (prefix / SITE / "one.py").rename(prefix / SITE / "two.py"),
    "no stamp": lambda prefix: (prefix / "seal" / stamp.FILE).unlink(),
    "a pipe for a stamp": piped,
    "no true stamp": lambda prefix: (prefix / "seal" / stamp.FILE).write_text("envlock-stamp 2\n"),
    "a stamp of a later envlock": lambda prefix: (prefix / "seal" / stamp.FILE).write_text("envlock-stamp 3 0 bin\n"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen(name: str, prefix: Path) -> None:
    CHANGES[name](prefix)
    assert not stamp.unchanged(str(prefix))


def test_a_file_that_came_and_went_can_be_settled(prefix: Path) -> None:
    passing = prefix / SITE / "torch" / "passing"
    passing.touch()
    passing.unlink()
    assert not stamp.unchanged(str(prefix))
    stamp.settle(str(prefix))
    assert stamp.unchanged(str(prefix))


def test_the_vital_paths_of_an_earlier_envlock_are_still_compared(prefix: Path) -> None:
    file = prefix / "seal" / stamp.FILE
    head, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(b"envlock-stamp 1 " + head.split()[2] + b"\n" + rest)
    assert stamp.differing(str(prefix)) is None
    assert not stamp.unchanged(str(prefix))  # it names nothing at the top: look file by file
    (prefix / SITE / "torch" / "lib" / "libc10.so").write_text("x")
    assert stamp.differing(str(prefix)) == f"{SITE}/torch/lib/libc10.so"
