"""What envlock puts inside a container beside itself, and the environment its commands have there. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from envlock.container.declaration import TOOL, Container

COMMAND = "/usr/local/bin/envlock"
"""What a person types inside."""
CERTIFICATES = "/etc/envlock/ca.pem"
"""The caller's own SSL_CERT_FILE, where there is one: indexes behind a company's certificate are read inside, too."""
TOOL_COMMAND = f"{TOOL}/bin/envlock"


def environment(container: Container) -> Mapping[str, str]:
    """Return the variables of every envlock command that runs inside."""
    return {
        "ENVLOCK_INSIDE": container.name,
        "ENVLOCK_PROJECT": container.paths.project,
        "ENVLOCK_HOME": container.paths.store,
        "UV_CACHE_DIR": container.paths.uv_cache,
        **container.env,
    }


def place_text(container: Container) -> str:
    """Return the file that tells an envlock inside where it is."""
    lines = [container.name, *(f"{name}={value}" for name, value in environment(container).items())]
    return "\n".join(lines) + "\n"


def command_text(container: Container) -> str:
    """Return the script at COMMAND: the same envlock, for who has come in by another door than envlock's."""
    lines = ["#!/bin/sh", "# Written by envlock."]
    for name, value in environment(container).items():
        quoted = value.replace("'", "'\\''")
        lines.append(f"[ -n \"${{{name}+set}}\" ] || export {name}='{quoted}'")
    return "\n".join([*lines, f'exec {TOOL_COMMAND} "$@"', ""])


# $1: uv's cache inside. Unpacked beside; unpacked wheels are moved in whole before anything points at them.
FILL_CACHE = (
    'set -e; mkdir -p "$1"; exec 9>"$1/.filling.lock"; flock 9; rm -rf "$1/.filling"; mkdir "$1/.filling"; '
    'tar -x -p -C "$1/.filling"; cd "$1/.filling"; for f in archive-v*/*; do [ -e "$f" ] || continue; '
    'mkdir -p "$1/${f%/*}"; [ -e "$1/$f" ] || mv -T "$f" "$1/$f"; done; rm -rf archive-v*; cp -a . "$1/"; '
    'cd /; rm -rf "$1/.filling"'
)
INSTALL_PACKAGES = (
    "set -e; export DEBIAN_FRONTEND=noninteractive; apt-get update -q >&2; "
    'apt-get install -y -q --no-install-recommends "$@" >&2'
)


def driver_packages(distribution: str, version: str) -> tuple[str, ...]:
    """Return the packages, pinned, that hold the driver's compute and utility user space of exactly that version."""
    branch = version.partition(".")[0]
    if distribution == "ubuntu":
        return (f"libnvidia-compute-{branch}={version}*", f"nvidia-utils-{branch}={version}*")
    return (f"libcuda1={version}*", f"libnvidia-ml1={version}*", f"nvidia-smi={version}*")
