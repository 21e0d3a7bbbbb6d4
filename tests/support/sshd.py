"""A real sshd on loopback with keys of its own, and the client configuration that reaches it."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from envlock.container.transport import sockets


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Path]:
    """Start sshd for the current user; yield an ssh configuration in which the host `loop` is it."""
    daemon = shutil.which("sshd") or "/usr/sbin/sshd"
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    (folder / "authorized").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"PidFile {folder}/pid\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nAcceptEnv LANG LC_* HOSTILE_*\n"
    )
    client = folder / "ssh_config"
    client.write_text(
        f"Host loop\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/user\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder}/known\n StrictHostKeyChecking accept-new\n SendEnv LANG LC_* HOSTILE_*\n"
        " LogLevel ERROR\n"
        f"Host silent\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/nokey\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder}/known\n StrictHostKeyChecking accept-new\n"
    )
    process = subprocess.Popen([daemon, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.05)
        yield client
    finally:
        if (sockets_folder := sockets()) is not None:
            subprocess.run(
                ["ssh", "-F", str(client), "-O", "exit", "-o", f"ControlPath={sockets_folder}/envlock-%C", "loop"],
                check=False,
                stderr=subprocess.DEVNULL,
            )
        process.terminate()
        process.wait()
