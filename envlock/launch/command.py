"""Which file a command's first word means inside an environment, and whether that file belongs there.

Reads the disk, starts nothing. Standard library only: the fast path imports it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Programs that only make sense inside an environment: one found elsewhere runs another interpreter's packages.
OF_AN_ENVIRONMENT = frozenset(
    "accelerate deepspeed ipython jupyter pip pip3 pytest sglang specforge torchrun transformers-cli vllm".split()  # noqa: SIM905
)


class Refusal(Exception):
    """The command cannot be run: `code` as a shell would exit, what was found, what to do."""

    def __init__(self, code: int, message: str, found: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.found = found
        self.hint = hint


def resolve(command: Sequence[str], *, prefix: str, profile: str, path: str, shims: str) -> list[str]:
    """Return the argv to execute, its first word an absolute path (or one with a slash, as given). Raises Refusal.

    The environment's own programs come first. A Python, or a script whose first line names a Python, that is not of
    this environment is refused. A script whose first line names a shim in `shims` is run by the environment's Python.
    """
    word, rest = command[0], list(command[1:])
    if not word:
        raise Refusal(127, "the command is an empty word", "''", f"envlock run {profile} -- COMMAND")
    if "/" in word:
        return _by_path(word, rest, prefix, profile, shims)
    own = f"{prefix}/bin/{word}"
    if os.access(own, os.X_OK) and not os.path.isdir(own):
        return [own, *rest]
    elsewhere = _search(word, path)
    if elsewhere is None:
        raise Refusal(
            127, f"{word}: not found, neither in the environment nor on the PATH", path, _hint_add(word, profile)
        )
    if is_python(word) or word in OF_AN_ENVIRONMENT:
        raise Refusal(126, f"{word} is not in this environment", f"another one: {elsewhere}", _hint_add(word, profile))
    foreign = _foreign_interpreter(elsewhere, prefix)
    if foreign is not None:
        raise Refusal(
            126,
            f"{word} is not in this environment; the one on the PATH belongs to another Python",
            f"{elsewhere} runs {foreign}",
            _hint_add(word, profile),
        )
    return [elsewhere, *rest]


def _by_path(word: str, rest: list[str], prefix: str, profile: str, shims: str) -> list[str]:
    if not os.path.exists(word):
        raise Refusal(127, f"{word}: no such file", word, "check the path; it is taken from the folder you are in")
    if os.path.isdir(word):
        raise Refusal(126, f"{word}: is a folder", word, f"envlock run {profile} -- python -m PACKAGE")
    run_it = f"envlock run {profile} -- python {word}"
    interpreter = shebang(word)
    if interpreter is not None and _same(os.path.dirname(interpreter), shims):
        return [f"{prefix}/bin/python", word, *rest]
    if not os.access(word, os.X_OK):
        raise Refusal(126, f"{word}: not executable", word, run_it if word.endswith(".py") else f"chmod +x {word}")
    if is_python(os.path.basename(word)) and not _inside(word, prefix):
        raise Refusal(126, "this Python is not the environment's", word, f"envlock run {profile} -- python ...")
    foreign = _foreign_interpreter(word, prefix)
    if foreign is not None:
        raise Refusal(126, f"{word} belongs to another Python", f"its first line runs {foreign}", run_it)
    return [word, *rest]


def _search(word: str, path: str) -> str | None:
    for folder in path.split(":"):
        candidate = f"{folder}/{word}"
        if folder and os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return None


def shebang(path: str) -> str | None:
    """Return the interpreter that a script's first line names (what `env` would look up for `env`), or None."""
    try:
        with open(path, "rb") as file:
            head = file.read(1024)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    lines = head[2:].decode("utf-8", "surrogateescape").split("\n")
    words = lines[0].split()
    if len(lines) > 1 and lines[1].startswith("'''exec' "):  # where the path is too long, or has a space
        rest = lines[1].removeprefix("'''exec' ")
        return rest.split(rest[0])[1] if rest[:1] in ("'", '"') else rest.split(" ")[0]
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else None


def _foreign_interpreter(path: str, prefix: str) -> str | None:
    """Return the Python a script is bound to when that is not the environment's; `env python` finds the right one."""
    interpreter = shebang(path)
    if interpreter is None or "/" not in interpreter or not is_python(os.path.basename(interpreter)):
        return None
    return None if _inside(interpreter, prefix) else interpreter


def _inside(path: str, prefix: str) -> bool:
    return _same(os.path.dirname(os.path.abspath(path)), f"{prefix}/bin")


def _same(folder: str, other: str) -> bool:
    try:
        return folder == other or os.path.samefile(folder, other)
    except OSError:
        return False


def is_python(name: str) -> bool:
    """Tell whether a file name is a Python's: `python`, `python3`, `python3.11`."""
    return name.startswith("python") and not name[6:].replace(".", "").strip("0123456789t")


def _hint_add(word: str, profile: str) -> str:
    package = {"torchrun": "torch", "pip3": "pip", "ipython": "ipython"}.get(word, word)
    return f"envlock add {profile} {package}, then lock and sync; or check the word"


def foreign_folders(path: str) -> list[str]:
    """Return the folders of PATH that are the `bin` of another virtual or conda environment."""
    return [
        folder
        for folder in path.split(":")
        if folder.startswith("/")
        and (os.path.lexists(f"{folder}/../pyvenv.cfg") or os.path.lexists(f"{folder}/../conda-meta"))
    ]
