"""Integrations with launchers, as texts: what `envlock hook KIND NAME` writes out. Pure; a file a kind."""

from __future__ import annotations

from envlock.launch.hooks import (
    accelerate,
    direnv,
    jupyter,
    sglang,
    slurm,
    supervisor,
    systemd,
    torchrun,
    vscode,
)
from envlock.launch.hooks.kind import Kind

KINDS: tuple[Kind, ...] = (
    torchrun.KIND,
    accelerate.KIND,
    sglang.KIND,
    systemd.KIND,
    supervisor.KIND,
    slurm.KIND,
    direnv.KIND,
    jupyter.KIND,
    vscode.KIND,
)
