"""Proxmox: everything through `pct`, and the raw lines it has no word for in /etc/pve/lxc/ID.conf. Effects."""

from __future__ import annotations

import time

from envlock.container.config import digest, pct_config, pct_create, pct_options, pct_raw
from envlock.container.declaration import Container
from envlock.container.facts import GuestFacts, HostFacts, State
from envlock.container.hops import Pct
from envlock.container.plan import config_change
from envlock.container.transport import Transport
from envlock.errors import ContainerError, TransportError

CREATE_SECONDS = 900
START_SECONDS = 60
_STARTED = "/var/lib/envlock/started"


class Proxmox:
    """A declared container of Proxmox."""

    def __init__(self, container: Container, host: Transport, *, pve: str = "/etc/pve") -> None:
        self._container = container
        self._host = host
        self.file = f"{pve}/lxc/{container.guest}.conf"

    @property
    def container(self) -> Container:
        return self._container

    @property
    def host(self) -> Transport:
        return self._host

    @property
    def inside(self) -> Transport:
        return Transport((*self.host.hops, Pct(id=self.container.guest)), env=self.container.env)

    def guest(self) -> GuestFacts:
        state = self.host.run(("pct", "status", self.container.guest), timeout=60)
        if state.returncode != 0:
            if "does not exist" not in state.stderr:
                raise ContainerError("pct status failed", where=str(self.host), details=state.stderr.splitlines())
            return GuestFacts(base_cached=True)
        config = self._config()
        values = dict(line.partition(": ")[::2] for line in config)
        words: dict[str, State] = {"running": "running"}
        tags = values.get("tags", "").replace(",", ";").split(";")
        return GuestFacts(
            state=words.get(state.stdout.partition("status: ")[2].strip(), "stopped"),
            ours="envlock" in tags and values.get("hostname") == self.container.name,
            rootfs=True,
            base_cached=True,
            config=config,
            started_with=(self.host.read(f"{_STARTED}/{self.container.guest}") or "").strip() or None,
        )

    def _config(self) -> tuple[str, ...]:
        text = self._pct("config", self.container.guest)
        return tuple(line for line in text.splitlines() if ": " in line and not line.startswith("#"))

    def make_base(self, facts: HostFacts) -> None:
        raise ContainerError("Proxmox makes containers from a template", hint="`pveam download` on the host")

    def make_rootfs(self, facts: HostFacts) -> None:
        self._pct(*pct_create(self.container, facts)[1:], timeout=CREATE_SECONDS)

    def write_config(self, facts: HostFacts) -> None:
        found = self._config()
        wanted = pct_config(self.container, facts)
        options = dict(pct_options(self.container, facts))
        change = config_change(wanted, found)
        added = [line[2:].partition(": ")[0] for line in change if line.startswith("+ ")]
        removed = [line[2:].partition(": ")[0] for line in change if line.startswith("- ")]
        words = [word for key in added if key in options for word in (f"--{key}", options[key])]
        gone = [key for key in removed if key not in options and not key.startswith("lxc.")]
        if gone:
            words += ["--delete", ",".join(gone)]
        if words:
            self._pct("set", self.container.guest, *words)
        if any(line[2:].startswith("lxc.") for line in change):
            self._write_raw(pct_raw(self.container, facts))

    def _write_raw(self, raw: tuple[str, ...]) -> None:
        """Replace the raw lines of the current section; snapshots (`[name]` sections) stay as they are."""
        text = self.host.need(("cat", self.file), what=f"reading {self.file}")
        lines = text.splitlines()
        end = next((number for number, line in enumerate(lines) if line.startswith("[")), len(lines))
        kept = [line for line in lines[:end] if not line.startswith("lxc.") and line]
        tail = ["", *lines[end:]] if end < len(lines) else []
        # /etc/pve is a file system of its own that knows no other rename than within itself, and no chmod
        self.host.need(
            ("sh", "-c", 'cat >"$1.envlock" && mv "$1.envlock" "$1"', "sh", self.file),
            what=f"writing {self.file}",
            input_text="\n".join([*kept, *raw, *tail]) + "\n",
        )

    def start(self) -> None:
        guest = self.container.guest
        done = self.host.run(("pct", "start", guest), timeout=120)
        if done.returncode != 0:
            raise ContainerError(
                f"Proxmox could not start CT {guest}",
                where=str(self.host),
                details=done.stderr.strip().splitlines()[-8:],
                hint=f"`pct start {guest} --debug` on the host says more",
            )
        limit = time.monotonic() + START_SECONDS
        while True:
            try:
                self.inside.need(("true",), what="running a first command inside", timeout=10)
                break
            except TransportError:
                if time.monotonic() > limit:
                    raise
            time.sleep(0.5)
        self.host.write(f"{_STARTED}/{guest}", digest(self._config()) + "\n")

    def stop(self) -> None:
        self._pct("shutdown", self.container.guest, "--timeout", "30", "--forceStop", "1", timeout=90)

    def destroy(self) -> None:
        self._pct("destroy", self.container.guest, "--purge", "1", timeout=300)
        self.host.run(("rm", "-f", f"{_STARTED}/{self.container.guest}"))

    def _pct(self, *words: str, timeout: float = 120) -> str:
        done = self.host.run(("pct", *words), timeout=timeout)
        if done.returncode != 0:
            raise ContainerError(
                f"pct {words[0]} failed (exit {done.returncode})",
                where=str(self.host),
                details=done.stderr.strip().splitlines()[-8:],
                hint=f"pct needs root; `pct config {self.container.guest}` on the host shows what it has",
            )
        return done.stdout
