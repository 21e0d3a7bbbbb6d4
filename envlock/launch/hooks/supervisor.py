"""A supervisor program. supervisor has no step before a start: the launch itself refuses."""

from __future__ import annotations

import shlex

from envlock.launch.hooks.kind import File, Kind, Target, Unwritable, header


def value(argv: tuple[str, ...]) -> str:
    """Return the value of `command=` that means exactly these words. Raises Unwritable."""
    quoted = [_word(word) for word in argv]
    return " ".join(quoted)


def _word(word: str) -> str:
    if any(letter in word for letter in "\n\r"):
        raise Unwritable(f"supervisor's configuration cannot hold a word with a line break: {word!r}")
    quoted = shlex.quote(word).replace("%", "%%")
    for space in " \t":
        for mark in ";#":  # a space before one of these begins a comment, even between quotes
            quoted = quoted.replace(space + mark, f"{space}''{mark}")
    return quoted


def files(target: Target) -> tuple[File, ...]:
    """Return the program section."""
    user = f"user={target.user}\n" if target.user else ""
    command = target.command or ("python", "serve.py")
    text = f"""{header(target, "supervisor", ";")}
[program:{target.name}]
command={value((*target.launch, *command))}
directory={target.cwd.replace("%", "%%")}
{user}autostart=true
; 125, 126, 127: envlock refused the launch. Starting again mends nothing; what was wrong is in the log.
autorestart=unexpected
exitcodes=0,125,126,127
startsecs=5
startretries=1
; The signal goes to every rank.
stopasgroup=true
killasgroup=true
stopwaitsecs=60
redirect_stderr=true
"""
    return (File(path=f"{target.name}.conf", text=text),)


KIND = Kind(
    name="supervisor",
    purpose="a program section; a refused launch is not tried again",
    files=files,
    after="copy {path} to /etc/supervisor/conf.d/, then: supervisorctl update",
    takes_command=True,
)
