"""A systemd service that fails, and says why, when its environment is not in order."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header

# Words that need no quotes in a unit file.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}


def exec_line(argv: tuple[str, ...]) -> str:
    """Return the value of an Exec= setting that means exactly these words (systemd.service(5), COMMAND LINES).

    A leading `:` keeps systemd from replacing `$NAME`.
    """
    quoted = [_word(word) for word in argv]
    return (":" if any("$" in word for word in argv) else "") + " ".join(quoted)


def _word(word: str) -> str:
    if word and all(letter in _PLAIN for letter in word):
        return word
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in word) + '"'


def files(target: Target) -> tuple[File, ...]:
    """Return the unit."""
    user = f"User={target.user}\n" if target.user else ""
    moved = f"Environment={_word(f'ENVLOCK_HOME={target.home}')}\n" if target.moved else ""
    command = target.command or ("python", "serve.py")
    text = f"""{header(target, "systemd")}
[Unit]
Description=envlock profile {target.name}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=3

[Service]
Type=exec
{user}WorkingDirectory={target.cwd.replace("%", "%%")}
{moved}# An environment that is not in order fails the unit here. (ExecCondition= would only skip it.)
ExecStartPre={exec_line(target.verify)}
ExecStart={exec_line((*target.launch, *command))}
TimeoutStartSec=600
Restart=on-failure
RestartSec=10
# envlock refused the launch: starting again mends nothing.
RestartPreventExitStatus=125 126 127
# The main process gets the signal first and ends its ranks; what is left after TimeoutStopSec is killed.
KillMode=mixed
TimeoutStopSec=60
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
"""
    return (File(path=f"{target.name}.service", text=text),)


KIND = Kind(
    name="systemd",
    purpose="a service unit; a bad environment fails it in ExecStartPre",
    files=files,
    after="copy {path} to /etc/systemd/system/, then: systemctl daemon-reload; systemctl start {name}",
    takes_command=True,
)
