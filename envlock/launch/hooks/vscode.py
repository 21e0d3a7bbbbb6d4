"""VS Code: the environment for completion and analysis, the shim for whatever is run or debugged."""

from __future__ import annotations

import json

from envlock.launch.hooks.kind import File, Kind, Target, header, words


def files(target: Target) -> tuple[File, ...]:
    """Return settings, a debug configuration, and the interpreter that goes through envlock."""
    flags = ["--no-gpu"] if target.no_gpu else []
    shell = [*target.envlock, "shell", *flags, target.name]
    profile = f"envlock {target.name}"
    settings = {
        "python.defaultInterpreterPath": f"{target.prefix}/bin/python",
        "python.terminal.activateEnvironment": False,
        "terminal.integrated.profiles.linux": {profile: {"path": shell[0], "args": shell[1:]}},
        "terminal.integrated.defaultProfile.linux": profile,
        "files.watcherExclude": {"**/.envlock/**": True},
        "search.exclude": {"**/.envlock": True},
    }
    debugging = {
        "version": "0.2.0",
        "configurations": [
            {
                "name": f"{target.name}: this file",
                "type": "debugpy",
                "request": "launch",
                "program": "${file}",
                "console": "integratedTerminal",
                "python": "${workspaceFolder}/.vscode/envlock-python",
            }
        ],
    }
    interpreter = f'#!/bin/sh\n{header(target, "vscode")}exec {words((*target.launch, "python"))} "$@"\n'
    return (
        File(path=".vscode/settings.json", text=json.dumps(settings, indent=2, ensure_ascii=False) + "\n"),
        File(path=".vscode/launch.json", text=json.dumps(debugging, indent=2, ensure_ascii=False) + "\n"),
        File(path=".vscode/envlock-python", text=interpreter, executable=True),
    )


KIND = Kind(
    name="vscode",
    purpose="settings, a terminal, and debugging through the shim",
    files=files,
    after="open {folder} in VS Code",
    several=True,
)
