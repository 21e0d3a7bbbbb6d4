"""A STAND-IN for Proxmox's `pct`, not Proxmox: it drives a real LXC container and refuses what the real one refuses.

What it answers follows pct's manual page and pve-container's source: unknown and read-only options, numbers below 100,
numbers taken, volumes that are not there, devices that are no devices, exec into a container that does not run. It
knows no storages, no cluster and no locks. `install` writes it as a program named pct with its state folder built in.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

OPTIONS = {
    "hostname": r"[A-Za-z0-9.\-]+", "tags": r"[a-z0-9_;,\-]+", "cores": r"\d+", "memory": r"\d+", "onboot": r"[01]",
    "net0": r"name=[^,]+(,.+)?", "unprivileged": r"[01]", "ostype": r"debian|ubuntu|unmanaged", "rootfs": r"[\w\-]+:\d+",
    r"mp\d+": r"/[^,]+,mp=/[^,]+(,ro=[01])?",
    r"dev\d+": r"/[^,]+(,(deny-write=[01]|gid=\d+|uid=\d+|mode=0[0-7]{3}))*",
}  # fmt: skip
READ_ONLY = ("unprivileged", "ostype")


class Pct:
    """One call of the program."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.confs = state / "pve" / "lxc"

    def main(self, argv: list[str]) -> None:
        verbs = ("create", "set", "start", "shutdown", "stop", "destroy", "status", "config", "exec")
        if not argv or argv[0] not in verbs:
            fail(f"ERROR: unknown command 'pct {argv[0] if argv else ''}'")
        if len(argv) < 2 or not argv[1].isdigit() or int(argv[1]) < 100:
            fail("400 Parameter verification failed.\nvmid: type check ('pve-vmid') failed", 2)
        getattr(self, f"do_{argv[0]}")(argv[1], argv[2:])

    def conf(self, vmid: str) -> Path:
        file = self.confs / f"{vmid}.conf"
        if not file.exists():
            fail(f"Configuration file 'nodes/pve/lxc/{vmid}.conf' does not exist", 2)
        return file

    def do_create(self, vmid: str, rest: list[str]) -> None:
        if (self.confs / f"{vmid}.conf").exists():
            fail(f"unable to create CT {vmid} - CT {vmid} already exists on node 'pve'")
        if not rest or not re.fullmatch(r"[\w\-]+:vztmpl/.+", rest[0]):
            fail("unable to create CT - unable to parse volume ID")
        template = self.state / "templates" / rest[0].partition("/")[2]
        if not template.is_file():
            fail(f"unable to create CT {vmid} - volume '{rest[0]}' does not exist")
        options, _ = self.options(rest[1:])
        root = self.state / "rootfs" / vmid
        root.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-p", "--numeric-owner", "-C", str(root), "-f", str(template)], check=True)
        (root / "dev").mkdir(exist_ok=True)
        init = root / "sbin" / "init"
        init.write_text("#!/bin/sh\ntrap 'exit 0' TERM INT PWR\nwhile :; do sleep 86400 & wait $!; done\n")
        init.chmod(0o755)
        if "net0" in options:
            options["net0"] += ",hwaddr=BC:24:11:00:00:01,type=veth"
        options.setdefault("unprivileged", "1")
        options["arch"] = "amd64"
        self.write(vmid, options, [])

    def do_set(self, vmid: str, rest: list[str]) -> None:
        self.conf(vmid)
        options, gone = self.options(rest)
        for name in READ_ONLY:
            if name in options:
                fail(f"unable to modify read-only option: '{name}'")
        known, raw = self.read(vmid)
        for name in gone:
            if name not in known:
                print(f"cannot delete '{name}' - not set in current configuration!", file=sys.stderr)
            known.pop(name, None)
        self.write(vmid, {**known, **options}, raw)

    def do_config(self, vmid: str, rest: list[str]) -> None:
        known, raw = self.read(vmid)
        print("\n".join([*(f"{name}: {known[name]}" for name in sorted(known)), *raw]))

    def do_status(self, vmid: str, rest: list[str]) -> None:
        self.conf(vmid)
        print(f"status: {'running' if self.running(vmid) else 'stopped'}")

    def do_exec(self, vmid: str, rest: list[str]) -> None:
        self.conf(vmid)
        if not self.running(vmid):
            fail(f"container '{vmid}' not running!")
        keep = "--keep-env"
        if rest[:1] == ["--keep-env"]:
            keep = "--keep-env" if rest[1] == "1" else "--clear-env"
            rest = rest[2:]
        if rest[:1] == ["--"]:
            rest = rest[1:]
        if not rest:
            fail("400 not enough arguments", 2)
        os.execvp("lxc-attach", ["lxc-attach", "-n", guest(vmid), keep, "--", *rest])

    def do_start(self, vmid: str, rest: list[str]) -> None:
        known, raw = self.read(vmid)
        if self.running(vmid):
            fail(f"CT {vmid} already running")
        folder = Path("/var/lib/lxc") / guest(vmid)
        folder.mkdir(exist_ok=True)
        lines = ["lxc.include = /usr/share/lxc/config/common.conf", "lxc.apparmor.profile = unconfined"]
        lines += [f"lxc.rootfs.path = dir:{self.state}/rootfs/{vmid}", f"lxc.uts.name = {known['hostname']}"]
        lines += ["lxc.mount.entry = tmpfs dev/shm tmpfs rw,create=dir 0 0"]
        for name, value in known.items():
            if re.fullmatch(r"mp\d+", name):
                source, *parts = value.split(",")
                if not Path(source).is_dir():
                    fail(f"directory '{source}' does not exist")
                target = dict(part.split("=") for part in parts)["mp"].lstrip("/")
                lines.append(f"lxc.mount.entry = {source} {target} none bind,create=dir 0 0")
            if re.fullmatch(r"dev\d+", name):
                lines += self.device(vmid, value)
        lines += [line.replace(": ", " = ", 1) for line in raw]
        if "net0" not in known and not any(line.startswith("lxc.net.") for line in lines):
            lines.append("lxc.net.0.type = empty")
        (folder / "config").write_text("\n".join(lines) + "\n")
        done = subprocess.run(["lxc-start", "-n", guest(vmid)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"startup for container '{vmid}' failed\n{done.stderr}")

    def device(self, vmid: str, value: str) -> list[str]:
        """As pve does: the numbers are the host's of this moment, the node is the container's own, its mode as told."""
        path, *parts = value.split(",")
        options = dict(part.split("=") for part in parts)
        if not os.path.exists(path):
            fail(f"Device {path} does not exist")
        status = os.stat(path)
        if not stat.S_ISCHR(status.st_mode) and not stat.S_ISBLK(status.st_mode):
            fail(f"{path} is not a device")
        inside = path.partition("/dev/")[2]
        node = self.state / "passthrough" / vmid / inside
        node.parent.mkdir(parents=True, exist_ok=True)
        node.unlink(missing_ok=True)
        os.mknod(node, int(options.get("mode", "0660"), 8) | stat.S_IFCHR, status.st_rdev)
        node.chmod(int(options.get("mode", "0660"), 8))
        os.chown(node, 0, int(options.get("gid", "0")))
        number = f"c {os.major(status.st_rdev)}:{os.minor(status.st_rdev)} rw"
        group = "cgroup2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "cgroup"
        return [
            f"lxc.{group}.devices.allow = {number}",
            f"lxc.mount.entry = {node} dev/{inside} none bind,create=file 0 0",
        ]

    def do_shutdown(self, vmid: str, rest: list[str]) -> None:
        self.conf(vmid)
        if not self.running(vmid):
            fail(f"CT {vmid} not running")
        subprocess.run(["lxc-stop", "-n", guest(vmid), "-t", "10"], check=True)

    do_stop = do_shutdown

    def do_destroy(self, vmid: str, rest: list[str]) -> None:
        file = self.conf(vmid)
        if self.running(vmid):
            fail(f"unable to destroy CT {vmid} - container is running")
        shutil.rmtree(self.state / "rootfs" / vmid)
        shutil.rmtree(Path("/var/lib/lxc") / guest(vmid), ignore_errors=True)
        file.unlink()

    def running(self, vmid: str) -> bool:
        done = subprocess.run(["lxc-info", "-n", guest(vmid), "-s", "-H"], capture_output=True, text=True, check=False)
        return done.stdout.strip() == "RUNNING"

    def options(self, words: list[str]) -> tuple[dict[str, str], list[str]]:
        found: dict[str, str] = {}
        gone: list[str] = []
        rest = iter(words)
        for word in rest:
            name = word.removeprefix("--")
            value = next(rest, None)
            if name == "delete" and value is not None:
                gone = value.split(",")
                continue
            pattern = next((text for key, text in OPTIONS.items() if re.fullmatch(key, name)), None)
            if not word.startswith("--") or pattern is None:
                fail(f"Unknown option: {name}\n400 unable to parse option", 255)
            if value is None or re.fullmatch(pattern, value) is None:
                fail(f"400 Parameter verification failed.\n{name}: invalid format - value does not match", 255)
            found[name] = value
        return found, gone

    def read(self, vmid: str) -> tuple[dict[str, str], list[str]]:
        known: dict[str, str] = {}
        raw = []
        for line in self.conf(vmid).read_text().splitlines():
            if line.startswith("["):
                break
            name, colon, value = line.partition(": ")
            if line.startswith("lxc."):
                raw.append(line)
            elif colon and not line.startswith("#"):
                known[name] = value
        return known, raw

    def write(self, vmid: str, known: dict[str, str], raw: list[str]) -> None:
        lines = [*(f"{name}: {known[name]}" for name in sorted(known)), *raw]
        file = self.confs / f"{vmid}.conf"
        snapshots = file.read_text().partition("\n[")[1:] if file.exists() else ()
        file.write_text("\n".join(lines) + "\n" + "".join(snapshots))


def guest(vmid: str) -> str:
    return f"pct-stand-in-{vmid}"


def fail(message: str, code: int = 255) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)


def install(folder: Path) -> Path:
    """Write the program into `folder`/bin with its state beside; return that bin folder."""
    (folder / "pve" / "lxc").mkdir(parents=True)
    (folder / "templates").mkdir()
    programs = folder / "bin"
    programs.mkdir()
    (programs / "pct").write_text(
        f"#!{sys.executable} -I\nimport pathlib, runpy, sys\n"
        f"made = runpy.run_path({__file__!r})\nmade['Pct'](pathlib.Path({str(folder)!r})).main(sys.argv[1:])\n"
    )
    (programs / "pct").chmod(0o755)
    (programs / "pveam").write_text("#!/bin/sh\nexit 0\n")
    (programs / "pveam").chmod(0o755)
    return programs
