"""Plain LXC: root file systems by debootstrap, one configuration file a container. Effects, on the engine's host."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path

from envlock.container.config import INIT, INIT_TEXT, LXC_FOLDER, device_check, digest, lxc_config, selection
from envlock.container.declaration import Container
from envlock.container.facts import GuestFacts, HostFacts, State
from envlock.container.hops import LxcAttach
from envlock.container.transport import Transport
from envlock.errors import ContainerError, TransportError

BASE_SECONDS = 900
START_SECONDS = 30
# $1 folder, $2 base: exit codes do not matter, each line is an answer.
_LOOK = (
    'lxc-info -n "$1" -s -H 2>/dev/null || echo ABSENT; printf "\\036"; cat "$2/$1/envlock.json" 2>/dev/null; '
    'printf "\\036"; [ -d "$2/$1/rootfs" ] && echo yes; printf "\\036"; cat "$2/$1/config" 2>/dev/null; '
    'printf "\\036"; cat "$2/$1/started" 2>/dev/null; printf "\\036"; [ -f "$3" ] && echo yes; :'
)
# What a killed create has started goes on by itself: the kernel's lock makes the next one wait for it and find it done.
# $1 archive, $2 release, $3 mirror or "", $4 packages with commas, $5 architecture. Made beside, renamed when whole.
_BASE = (
    'set -e; exec 9>"$1.lock"; flock 9; [ ! -f "$1" ] || exit 0; '
    'd="$1.making"; rm -rf "$d"; mkdir -p "$d"; trap \'rm -rf "$d" "$1.part"\' EXIT; '
    'debootstrap --variant=minbase --arch="$5" ${4:+--include="$4"} "$2" "$d" ${3:+"$3"} >&2; '
    'rm -rf "$d"/var/cache/apt/archives/*.deb; '
    'tar -c --numeric-owner --exclude="./dev/*" -C "$d" -f "$1.part" .; sync "$1.part"; mv -T "$1.part" "$1"'
)
# The mark goes last: a destroy that was cut short can be asked for again. Nothing mounted is ever followed.
_DESTROY = (
    'set -e; rm -rf --one-file-system "$1/rootfs" "$1/rootfs.part"; rm -f "$1/config"; rm -rf --one-file-system "$1"'
)
_SOURCES = (
    ". /etc/os-release; echo $ID; cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources "
    "/etc/apt/sources.list.d/*.list 2>/dev/null; :"
)
# $1 container's folder, $2 archive, $3 idmap "" or 100000:65536. Unpacked beside, marked, renamed.
_ROOTFS = (
    'set -e; mkdir -p "$1"; chmod 755 "$1"; exec 9>"$1/.lock"; flock 9; [ ! -d "$1/rootfs" ] || exit 0; '
    'rm -rf "$1/rootfs.part"; mkdir "$1/rootfs.part"; '
    'if [ -n "$3" ]; then chown "${3%%:*}:${3%%:*}" "$1/rootfs.part"; '
    'lxc-usernsexec -m "b:0:$3" -- tar -x -p --numeric-owner -C "$1/rootfs.part" -f - <"$2"; '
    'else tar -x -p --numeric-owner -C "$1/rootfs.part" -f "$2"; fi; '
    'mkdir -p "$1/rootfs.part/dev"; mv -T "$1/rootfs.part" "$1/rootfs"'
)


class Lxc:
    """A declared container of plain LXC."""

    def __init__(self, container: Container, host: Transport, *, mirror: str | None = None) -> None:
        self._container = container
        self._host = host
        self.mirror = mirror
        self.folder = f"{LXC_FOLDER}/{container.name}"

    @property
    def container(self) -> Container:
        return self._container

    @property
    def host(self) -> Transport:
        return self._host

    @property
    def inside(self) -> Transport:
        return Transport((*self.host.hops, LxcAttach(name=self.container.name)), env=self.container.env)

    @property
    def base(self) -> str:
        """The archive of the distribution's root file system with the declared packages, on the engine's host."""
        container = self.container
        packages = hashlib.sha256(" ".join(sorted(container.packages)).encode()).hexdigest()[:8]
        name = f"{container.distribution}-{container.release}-{packages}.tar"
        if self.host.hops:
            return f"/var/cache/envlock/rootfs/{name}"
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return f"{cache}/envlock/rootfs/{name}"

    def guest(self) -> GuestFacts:
        text = self.host.need(
            ("sh", "-c", _LOOK, "sh", self.container.name, LXC_FOLDER, self.base), what="asking LXC", timeout=30
        )
        state, marker, rootfs, config, started, base = (part.strip("\n") for part in text.split("\x1e"))
        names: dict[str, State] = {"RUNNING": "running", "STOPPED": "stopped", "STARTING": "running"}
        known = names.get(state.strip(), "absent")
        ours = _is_ours(marker, self.container.name)
        return GuestFacts(
            # LXC calls a folder with a configuration a container; ours without a root file system is one in the making
            state="absent" if known == "stopped" and ours and not rootfs else known,
            ours=ours,
            rootfs=rootfs == "yes",
            base_cached=base == "yes",
            config=tuple(config.splitlines()),
            started_with=started or None,
        )

    def make_base(self, facts: HostFacts) -> None:
        container = self.container
        packages = ",".join(sorted({package.partition("=")[0] for package in container.packages}))
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[facts.machine]
        mirror = self.mirror or self._host_mirror() or ""
        folder = self.base.rpartition("/")[0]
        self.host.need(("mkdir", "-p", folder), what="making the cache of root file systems")
        done = self.host.run(
            ("sh", "-c", _BASE, "sh", self.base, container.release, mirror, packages, architecture),
            timeout=BASE_SECONDS,
        )
        if done.returncode != 0:
            raise ContainerError(
                f"debootstrap of {container.distribution} {container.release} failed",
                where=str(self.host),
                details=done.stderr.strip().splitlines()[-8:],
                hint=f"is the mirror reachable? ENVLOCK_MIRROR_{container.distribution.upper()} names another",
            )

    def _host_mirror(self) -> str | None:
        """Return the mirror the host's own apt uses for this distribution, from either form of its sources."""
        text = self.host.run(("sh", "-c", _SOURCES)).stdout
        own, _, sources = text.partition("\n")
        if own != self.container.distribution:
            return None  # debootstrap knows where its distributions live
        found = re.search(r"^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s+)?)(https?://\S+)", sources, re.MULTILINE)
        return found[1] if found else None

    def make_rootfs(self, facts: HostFacts) -> None:
        ids = "" if self.container.privileged else "100000:65536"
        marker = json.dumps({"made-by": "envlock", "name": self.container.name}) + "\n"
        self.host.write(f"{self.folder}/envlock.json", marker)
        self.host.need(
            ("sh", "-c", _ROOTFS, "sh", self.folder, self.base, ids), what="unpacking the root file system", timeout=300
        )

    def write_config(self, facts: HostFacts) -> None:
        nodes = selection(self.container, facts).nodes
        self.host.write(f"{self.folder}/check-devices", device_check(nodes), mode="755")
        self.host.write(f"{self.folder}/config", "\n".join(lxc_config(self.container, facts)) + "\n")

    def start(self) -> None:
        name, log = self.container.name, f"{self.folder}/start.log"
        config = (self.host.read(f"{self.folder}/config") or "").splitlines()
        self.host.write(f"{self.folder}/rootfs{INIT}", INIT_TEXT, mode="755")
        if self.container.network == "none":  # the host's network wants the host's names
            names = self.host.read("/etc/resolv.conf")
            self.host.write(f"{self.folder}/rootfs/etc/resolv.conf", names or "")
        self.host.run(("rm", "-f", log))
        done = self.host.run(("lxc-start", "-n", name, "-l", "DEBUG", "-o", log), timeout=60)
        if done.returncode != 0:
            said = (self.host.read(log) or "").splitlines()
            errors = [_message(line) for line in said if " ERROR " in line or "produced output" in line]
            raise ContainerError(
                f"LXC could not start {name}",
                where=log,
                details=(errors or said)[:8] or done.stderr.splitlines(),
                hint=f"`envlock container doctor {name}` looks at both sides",
            )
        self._wait()
        self.host.write(f"{self.folder}/started", digest(config))

    def _wait(self) -> None:
        limit = time.monotonic() + START_SECONDS
        while True:
            try:
                self.inside.need(("true",), what="running a first command inside", timeout=10)
                return
            except TransportError:
                if time.monotonic() > limit:
                    raise
            time.sleep(0.2)

    def stop(self) -> None:
        self.host.need(("lxc-stop", "-n", self.container.name, "-t", "30"), what="stopping the container", timeout=60)

    def destroy(self) -> None:
        self.host.need(("sh", "-c", _DESTROY, "sh", self.folder), what="removing the container", timeout=300)


def _is_ours(marker: str, name: str) -> bool:
    try:
        data = json.loads(marker)
    except ValueError:
        return False
    return isinstance(data, dict) and data.get("made-by") == "envlock" and data.get("name") == name


def _message(line: str) -> str:
    """Return the words of a line of LXC's log, without its time and place in the source."""
    return line.rpartition(" - ")[2] if " - " in line else line
