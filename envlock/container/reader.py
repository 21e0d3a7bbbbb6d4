"""container/NAME.toml -> Container, or every fault of the file at once. Pure: text in, value out."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from envlock.container.declaration import (
    DRIVERS,
    ENGINES,
    MOUNT_USES,
    STATE,
    Container,
    Gpus,
    Limits,
    Mount,
    Paths,
)
from envlock.declare.fields import Table, line_numbers
from envlock.errors import ContainerFileError, Fault
from envlock.layout import is_profile_name

_DEVICE = re.compile(r"[0-9]{1,2}|GPU-[0-9a-fA-F-]{8,}")
_MODE = re.compile(r"0?[0-7]{3}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.\-]+(?:=[A-Za-z0-9.+:~\-]+)?")


def read_container(name: str, text: str, file: str) -> Container:
    """Return what a declaration's text declares. Raises ContainerFileError with all its faults."""
    faults: list[Fault] = []
    if not is_profile_name(name):
        faults.append(Fault("", f"{name!r} cannot name a container: lower-case letters, digits, - and _"))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"at line ([0-9]+)", str(error))
        line = int(match[1]) if match else None
        raise ContainerFileError(file, [*faults, Fault("", f"not TOML: {error}", line=line)]) from error
    top = Table(data, "", faults, line_numbers(text))
    container = _container(name, top)
    top.close()
    if faults or container is None:
        raise ContainerFileError(file, sorted(faults, key=lambda fault: fault.line or 0), hint=f"edit {file}")
    return container


def _container(name: str, top: Table) -> Container | None:
    engine = top.choice("engine", ENGINES)
    if "engine" not in top.data:
        top.fault("engine", f"is missing: one of {', '.join(ENGINES)}")
    host = top.text("host")
    if host is not None and (host.startswith("-") or any(char.isspace() for char in host)):
        top.fault("host", "must be a destination for ssh, such as root@pve", found=host)
    number = top.number("id", 100, 999_999_999)
    if engine == "proxmox" and "id" not in top.data:
        top.fault("id", "is missing: Proxmox knows a container by its number")
    if engine == "lxc" and number is not None:
        top.fault("id", "is Proxmox's; plain LXC uses the name of the file", found=number)
    template, storage = top.text("template"), top.text("storage")
    if engine == "proxmox" and template is None and "template" not in top.data:
        top.fault("template", "is missing: the volume of a container template, as `pveam list local` shows it")
    if engine == "lxc":
        for key, value in (("template", template), ("storage", storage)):
            if value is not None:
                top.fault(key, "is Proxmox's; plain LXC makes the root file system with debootstrap", found=value)
    container = Container(
        name=name,
        description=top.text("description") or "",
        engine=engine or "lxc",
        host=host,
        id=number,
        distribution=top.choice("distribution", ("debian", "ubuntu")) or "debian",
        release=top.text("release") or "bookworm",
        template=template,
        storage=storage,
        packages=top.strings("packages", _PACKAGE, "is no name of a package"),
        privileged=top.flag("privileged"),
        start_at_boot=top.flag("start-at-boot"),
        network=top.text("network") or "none",
        gpus=_gpus(top, bool(engine == "proxmox"), bool(top.data.get("privileged"))),
        mounts=_mounts(top),
        limits=_limits(top),
        paths=Paths(),
        env=_env(top),
        config=top.strings("config", re.compile(r"[a-z0-9_.\-]+\s*[:=]\s*.+"), "must be `key = value` of the engine"),
    )
    if re.fullmatch(r"[a-z][a-z0-9.\-]*", container.release) is None:
        top.fault("release", "must be a code name such as bookworm or noble", found=container.release)
    paths = _paths(top, container.mounts)
    return Container(**{**{key: getattr(container, key) for key in Container.__slots__}, "paths": paths})


def _gpus(top: Table, proxmox: bool, privileged: bool) -> Gpus | None:  # noqa: FBT001 two facts of the file
    table = top.table("gpu")
    if table is None:
        return None
    devices: Any = table.data.get("devices", "all")
    if devices == "all":
        table.asked.add("devices")
    else:
        devices = table.strings("devices", _DEVICE, "is neither an index nor a GPU-... UUID")
        if not devices:
            table.fault("devices", 'must be "all", or a list of indexes and UUIDs that is not empty')
    mode = table.text("mode")
    if mode is not None and _MODE.fullmatch(mode) is None:
        table.fault("mode", 'must be octal, such as "0666"', found=mode)
    driver = table.choice("driver", DRIVERS)
    if driver == "hook" and proxmox:
        table.fault("driver", "Proxmox starts no LXC hook of nvidia's: bind or packages", found=driver)
    if driver == "hook" and privileged:
        table.fault("driver", "nvidia's LXC hook refuses privileged containers: bind or packages", found=driver)
    known = ("compute", "utility", "graphics", "video", "display", "ngx", "compat32")
    capabilities = table.strings("capabilities") or ("compute", "utility")
    for capability in capabilities:
        if capability not in known:
            close = difflib.get_close_matches(capability, known, n=1)
            table.fault(
                "capabilities",
                f"must be of {', '.join(known)}",
                found=capability,
                suggestion=close[0] if close else None,
            )
    if "compute" not in capabilities:
        table.fault("capabilities", "without `compute` there is no libcuda inside", found=list(capabilities))
    gpus = Gpus(
        devices=devices,
        driver=driver or "bind",
        mode=(mode or "0666").rjust(4, "0"),
        gid=table.number("gid", 0, 65535),
        capabilities=capabilities,
    )
    table.close()
    return gpus


def _mounts(top: Table) -> tuple[Mount, ...]:
    mounts = []
    for table in top.tables("mount"):
        use = table.choice("use", MOUNT_USES) or "data"
        source, target = table.folder("source"), table.folder("target")
        if "target" not in table.data:
            table.fault("target", "is missing: where the folder is seen inside")
        if "source" not in table.data and use in ("data", "store"):
            table.fault("source", f"is missing: use = {use!r} has no folder of its own")
        read_only = table.flag("read-only")
        if read_only and use in ("store", "uv-cache"):
            table.fault("read-only", f"envlock writes to the {use}", found=True)
        table.close()
        mounts.append(Mount(source=source, target=target or "/", use=use, read_only=read_only))
    targets = [mount.target for mount in mounts]
    for target in sorted({target for target in targets if targets.count(target) > 1}):
        top.fault("mount", f"two mounts at {target}", found=target)
    return tuple(mounts)


def _limits(top: Table) -> Limits:
    table = top.table("limits") or Table({}, "limits", top.faults, top.lines)
    memlock: Any = table.data.get("memlock", "unlimited" if "gpu" in top.data else None)
    if memlock in ("unlimited", None):
        table.asked.add("memlock")
    else:
        memlock = table.size("memlock")
    limits = Limits(
        cores=table.number("cores", 1, 8192),
        memory=table.size("memory"),
        shm=table.size("shm"),
        memlock=memlock,
        disk=table.number("disk", 1, 1_000_000) or 8,
    )
    table.close()
    return limits


def _paths(top: Table, mounts: tuple[Mount, ...]) -> Paths:
    """Return where things lie inside: as `[paths]` says, else where a mount of that use is, else below STATE."""
    table = top.table("paths") or Table({}, "paths", top.faults, top.lines)
    seen = {mount.use: mount.target for mount in reversed(mounts)}
    paths = Paths(
        project=table.folder("project") or seen.get("project", f"{STATE}/project"),
        store=table.folder("store") or seen.get("store", f"{STATE}/store"),
        uv_cache=table.folder("uv-cache") or seen.get("uv-cache", f"{STATE}/uv-cache"),
    )
    table.close()
    return paths


def _env(top: Table) -> Mapping[str, str]:
    table = top.table("env")
    if table is None:
        return {}
    found = {}
    for key in table.data:
        value = table.text(key)
        if _VARIABLE.fullmatch(key) is None:
            table.fault(key, "cannot name a variable")
        elif value is not None:
            found[key] = value
    return found
