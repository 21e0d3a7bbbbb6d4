"""Declaration x facts -> what stands in the way, and the steps that are left. Pure.

A step is pending or not by what was found alone, never by what an earlier run remembers: an interrupted `create` goes
on where the world stands.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from envlock.container.config import digest, lxc_config, pct_config, pct_create, selection
from envlock.container.declaration import PLACE_FILE, TOOL, Container
from envlock.container.facts import GuestFacts, HostFacts
from envlock.container.inside import place_text

StepId = Literal["base", "rootfs", "config", "start", "packages", "driver", "envlock", "place"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing to do."""

    id: StepId
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The steps left, what forbids them, and the configuration they lead to."""

    steps: tuple[Step, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    config: tuple[str, ...]


def wanted_config(container: Container, host: HostFacts) -> tuple[str, ...]:
    """Return the configuration lines the container is to have."""
    return lxc_config(container, host) if container.engine == "lxc" else pct_config(container, host)


def plan(container: Container, host: HostFacts, guest: GuestFacts, tool: str) -> Plan:
    """Return what `create` would do now; `tool` is the digest of the envlock that belongs inside."""
    config = wanted_config(container, host)
    steps: list[Step] = []
    if guest.state == "absent" and not guest.rootfs:
        steps += _making(container, host, guest)
    change = config_change(config, guest.config)
    if not guest.config:  # all of it is new; `pct create` has written what it has words for
        change = tuple(f"+ {line}" for line in config if container.engine == "lxc" or line.startswith("lxc."))
    if change:
        details = change if guest.config else ()
        steps.append(Step(id="config", text=f"write the configuration ({len(change)} lines)", details=details))
    if guest.state != "running":
        steps.append(Step(id="start", text="start it"))
    steps += _inside(container, guest, tool)
    return Plan(
        steps=tuple(steps),
        problems=_problems(container, host, guest),
        notes=_notes(container, host, guest, change),
        config=config,
    )


def _making(container: Container, host: HostFacts, guest: GuestFacts) -> list[Step]:
    if container.engine == "proxmox":
        argv = pct_create(container, host)
        return [Step(id="rootfs", text=f"make CT {container.guest} from {container.template}", details=_shown(argv))]
    steps = []
    if not guest.base_cached:
        text = f"make {container.distribution} {container.release} with debootstrap, and keep it for the next time"
        steps.append(Step(id="base", text=text, details=(f"packages: {', '.join(container.packages)}",)))
    return [*steps, Step(id="rootfs", text="unpack the root file system")]


def _shown(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command as lines to read, an option a line."""
    lines = [""]
    for word in argv:
        shown = shlex.quote(word)
        if word.startswith("--"):
            lines.append(f"  {shown}")
        else:
            lines[-1] = f"{lines[-1]} {shown}".lstrip() if len(lines) == 1 else f"{lines[-1]} {shown}"
    return tuple(lines)


def _inside(container: Container, guest: GuestFacts, tool: str) -> list[Step]:
    inside = guest.inside
    steps = []
    from_base = container.engine == "lxc"  # debootstrap brought them
    missing = inside.missing_packages if inside is not None else () if from_base else container.packages
    if missing:
        steps.append(Step(id="packages", text=f"have these packages inside: {', '.join(missing)}"))
    driver = "none" if container.gpus is None else container.gpus.driver
    if driver in ("bind", "cdi", "packages") and (inside is None or not inside.driver_links):
        how = "install the kernel module's version" if driver == "packages" else "link the host's libraries"
        steps.append(Step(id="driver", text=f"driver's user space: {how}"))
    if inside is None or inside.tool != tool:
        steps.append(Step(id="envlock", text=f"push envlock ({tool}) to {TOOL}"))
    if inside is None or inside.place != place_text(container).strip():
        steps.append(Step(id="place", text=f"name the place in {PLACE_FILE}"))
    return steps


def config_change(wanted: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is to be added (`+`) and removed (`-`) to get from the configuration found to the one wanted.

    A value of Proxmox counts as there when all its comma-separated parts are: Proxmox adds parts of its own (hwaddr).
    """
    added = [line for line in wanted if not any(_answers(line, other) for other in found)]
    removed = [line for line in found if not any(_answers(other, line) for other in wanted) and _ours(line)]
    return (*(f"- {line}" for line in removed), *(f"+ {line}" for line in added))


def _answers(wanted: str, found: str) -> bool:
    key, colon, value = wanted.partition(": ")
    other, _, there = found.partition(": ")
    if not colon or key.startswith("lxc."):
        return wanted == found
    return key == other and set(value.split(",")) <= set(there.split(","))


def _ours(line: str) -> bool:
    """Tell whether a line found is of a kind that envlock writes, and so may remove."""
    key = line.partition(": ")[0]
    return ": " not in line or key.startswith("lxc.") or key.rstrip("0123456789") in ("dev", "mp")


def _problems(container: Container, host: HostFacts, guest: GuestFacts) -> tuple[str, ...]:
    problems = []
    if guest.state != "absent" and not guest.ours:
        problems.append(f"{container.guest} is there and envlock did not make it: choose another name, or remove it")
    if not host.reached:
        return tuple(problems)
    if not host.root:
        problems.append('not root on the host: LXC and Proxmox want root (sudo here, or host = "root@...")')
    problems += [f"{program} is not on the host" for program in host.missing_programs]
    problems += [f"{source} is not on the host, and a mount needs it" for source in host.absent_sources]
    problems += selection(container, host).problems
    if container.gpus is not None and container.gpus.driver == "bind" and not host.libraries:
        problems.append(
            f"the host has no libcuda.so.{host.driver or '...'} to bind: its driver's user space is missing"
        )
    if container.gpus is not None and container.gpus.driver == "cdi" and not host.cdi:
        problems.append(f"nvidia-ctk on the host lists no libcuda.so.{host.driver or '...'}: `nvidia-ctk cdi generate`")
    if container.gpus is not None and container.gpus.driver == "hook" and not host.hook:
        problems.append("nvidia-container-cli or /usr/share/lxc/hooks/nvidia is not on the host")
    return tuple(problems)


def _notes(container: Container, host: HostFacts, guest: GuestFacts, change: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    if not host.reached:
        notes.append("the host was not reached: device numbers and driver libraries are left out, nothing is compared")
    older = guest.started_with is not None and guest.started_with != digest(guest.config)
    if guest.state == "running" and (change or older):
        notes.append(
            f"it runs under the earlier configuration until `envlock container stop {container.name}` and start"
        )
    return tuple(notes)
