"""Make, start, stop and remove declared containers: observe, plan, carry out one step, observe again."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from envlock.container.bundle import bundle, tool_digest
from envlock.container.declaration import PLACE_FILE, TOOL, Container, Mount
from envlock.container.doctor import judge
from envlock.container.engine import Engine
from envlock.container.engine_lxc import Lxc
from envlock.container.engine_proxmox import Proxmox
from envlock.container.examine import examine
from envlock.container.facts import GuestFacts, HostFacts
from envlock.container.files import load_container
from envlock.container.inside import COMMAND, FILL_CACHE, INSTALL_PACKAGES, command_text, driver_packages, place_text
from envlock.container.observe import host_facts, inside_facts, reach
from envlock.container.plan import Plan, Step, plan
from envlock.container.transport import Transport, ssh
from envlock.declare.files import load_profile, profile_names
from envlock.declare.profile import PYPI, Profile
from envlock.errors import ContainerError, Fault, FileError, TransportError, UsageError
from envlock.layout import Layout
from envlock.resolve import uv
from envlock.resolve.indexes import configuration_file, load_index_map
from envlock.verify.check import Check

OnStep = Callable[[Step], None]


def cache_folder() -> Path:
    """Return the folder of what can be made again: root file systems and envlock's own bundles."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envlock"


def open_container(layout: Layout, name: str) -> Engine:
    """Return the engine of a declared container, nothing touched yet. Raises UsageError, ContainerFileError."""
    declared = load_container(layout, name)
    container = replace(declared, mounts=tuple(_with_source(mount, declared, layout) for mount in declared.mounts))
    host = Transport(() if container.host is None else (ssh(container.host),))
    if container.engine == "proxmox":
        return Proxmox(container, host)
    return Lxc(container, host, mirror=_mirror(container.distribution))


def _mirror(distribution: str) -> str | None:
    """Return the mirror the user has named: ENVLOCK_MIRROR_DEBIAN, or `[mirror] debian` of the configuration file."""
    named = os.environ.get(f"ENVLOCK_MIRROR_{distribution.upper()}")
    if named:
        return named
    path = configuration_file(os.environ)
    try:
        found = tomllib.loads(path.read_text()).get("mirror", {}).get(distribution)
    except OSError:
        return None
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise FileError(str(path), [Fault("mirror", str(error))]) from error
    return str(found) if found else None


def _with_source(mount: Mount, container: Container, layout: Layout) -> Mount:
    """Fill in the folder on this machine that a mount without a source means."""
    if mount.source is not None:
        return mount
    if container.host is not None:
        raise UsageError(
            f"the {mount.use} of this machine cannot be mounted on {container.host}",
            where=f"container/{container.name}.toml",
            hint="give the mount a source on that host, or leave it out: envlock pushes what is needed",
        )
    if mount.use == "project":
        return replace(mount, source=str(layout.project.resolve()))
    folder = uv.cache_dir(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    return replace(mount, source=str(folder))


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A container as found now: both sides, the plan that follows, and why a host was not reached."""

    host: HostFacts
    guest: GuestFacts
    plan: Plan
    error: TransportError | None = None


def look(engine: Engine) -> Seen:
    """Observe host and container and plan; an unreachable host is told in `error` and leaves the facts empty."""
    container = engine.container
    host, error = reach(engine.host, container)
    guest = GuestFacts()
    if host.reached and not set(host.missing_programs) & {"lxc-start", "pct"}:
        guest = engine.guest()
        if guest.state == "running":
            guest = replace(guest, inside=inside_facts(engine.inside, container, host))
    return Seen(host=host, guest=guest, plan=plan(container, host, guest, tool_digest()), error=error)


def create(engine: Engine, on_step: OnStep) -> Seen:
    """Bring the container to what is declared, step by step, from wherever it stands. Returns what is there then.

    Raises ContainerError or TransportError; what was done stays done, and the next call goes on.
    """
    done: list[Step] = []
    while True:
        seen = look(engine)
        if seen.error is not None:
            raise seen.error
        _refuse(engine, seen)
        if not seen.plan.steps:
            return seen
        step = seen.plan.steps[0]
        if done and step == done[-1]:
            raise ContainerError(
                f"{step.text}: done, and yet it is still to do",
                where=engine.container.name,
                details=step.details,
                hint=f"envlock container doctor {engine.container.name}",
            )
        on_step(step)
        _carry_out(engine, step, seen.host)
        done.append(step)


def _refuse(engine: Engine, seen: Seen) -> None:
    if seen.plan.problems:
        raise ContainerError(
            f"{engine.container.name} cannot be made",
            where=f"container/{engine.container.name}.toml",
            details=seen.plan.problems,
            hint=f"envlock container plan {engine.container.name}",
        )


def _carry_out(engine: Engine, step: Step, host: HostFacts) -> None:
    container = engine.container
    match step.id:
        case "base":
            engine.make_base(host)
        case "rootfs":
            engine.make_rootfs(host)
        case "config":
            engine.write_config(host)
        case "start":
            engine.start()
        case "packages":
            _install(engine, container.packages)
        case "driver":
            if container.gpus is not None and container.gpus.driver == "packages" and host.driver is not None:
                _install(engine, driver_packages(container.distribution, host.driver))
            engine.inside.need(("ldconfig",), what="linking the driver's libraries")
        case "envlock":
            push_tool(engine, host)
        case "place":
            engine.inside.write(COMMAND, command_text(container), mode="755")
            engine.inside.write(PLACE_FILE, place_text(container))


def _install(engine: Engine, packages: tuple[str, ...]) -> None:
    engine.inside.need(("sh", "-c", INSTALL_PACKAGES, "sh", *packages), what="installing packages", timeout=1800)


def push_tool(engine: Engine, host: HostFacts) -> None:
    """Bring this envlock inside. Raises ContainerError when the container has no Python that fits."""
    seen = inside_facts(engine.inside, engine.container, host)
    if seen.python is None:
        raise ContainerError(
            "the container has no python3",
            where=str(engine.inside),
            hint=f'packages = ["python3"] in container/{engine.container.name}.toml',
        )
    tree = bundle(cache_folder(), seen.python, host.machine)
    engine.inside.push(tree, TOOL, digest=tool_digest())


def doctor(layout: Layout, engine: Engine) -> tuple[Check, ...]:
    """Return the checks of a container from both sides. Raises ContainerError when it does not run."""
    container = engine.container
    seen = look(engine)
    if seen.error is not None:
        raise seen.error
    if seen.guest.state != "running":
        raise ContainerError(
            f"{container.name} is {seen.guest.state}, and only one that runs can be asked",
            details=seen.plan.problems,
            hint=f"envlock container {'create' if seen.guest.state == 'absent' else 'start'} {container.name}",
        )
    pending = [step.text for step in seen.plan.steps]
    declared = Check(
        id="container.declared",
        tier="host",
        status="warn" if pending or seen.plan.notes else "pass",
        expected="as declared",
        found="; ".join((*pending, *seen.plan.notes)) or "as declared",
        where="host",
        remedy=f"envlock container create {container.name}" if pending or seen.plan.notes else "",
    )
    profiles = [load_profile(layout, name) for name in profile_names(layout)]
    floors = [profile.platform.glibc for profile in profiles if profile.requirements or profile.torch]
    floor = max(floors, key=lambda text: [int(part) for part in text.split(".")], default=None)
    urls = {url for profile in profiles for url in index_urls(profile, os.environ).values()}
    hosts = sorted({host for url in urls if (host := urlsplit(url).hostname)})
    return (declared, *judge(container, seen.host, examine(engine.inside, container, hosts), floor))


def index_urls(profile: Profile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return logical name -> URL of a profile's indexes as this machine maps them."""
    names = (PYPI, *(index.name for index in profile.indexes))
    return load_index_map(names, environ).for_profile(profile)


def fill(engine: Engine) -> int:
    """Bring this machine's uv cache inside, for a container without a network; return how many wheels it lacked.

    Wheels that are there already are not sent again. Raises TransportError; cut short, the next call goes on.
    """
    cache, there = uv.cache_dir(os.environ), engine.container.paths.uv_cache
    listed = engine.inside.run(("sh", "-c", 'cd "$1" 2>/dev/null && ls -d archive-v*/* 2>/dev/null; :', "sh", there))
    known = set(listed.stdout.split())
    wheels = {path.relative_to(cache).as_posix() for path in cache.glob("archive-v*/*")}
    with tempfile.NamedTemporaryFile("w", prefix="envlock-fill-") as left_out:
        left_out.write("".join(f"./{name}\n" for name in sorted(wheels & known)))
        left_out.flush()
        source = ("tar", "-c", "--numeric-owner", "--owner=0", "--group=0", "-C", str(cache), "-X", left_out.name, ".")
        engine.inside.stream(source, ("sh", "-c", FILL_CACHE, "sh", there), what="filling uv's cache")
    return len(wheels - known)


def start(engine: Engine) -> bool:
    """Start the container, its configuration brought up to date first (device numbers move); False: it runs already.

    Raises ContainerError when it was not created, or may not start as things are.
    """
    host = host_facts(engine.host, engine.container)
    guest = engine.guest()
    if guest.state == "absent":
        raise ContainerError(
            f"{engine.container.name} does not exist", hint=f"envlock container create {engine.container.name}"
        )
    if guest.state == "running":
        return False
    now = plan(engine.container, host, guest, tool_digest())
    if guest.ours:
        _refuse(engine, Seen(host=host, guest=guest, plan=now))
        if any(step.id == "config" for step in now.steps):
            engine.write_config(host)
    engine.start()
    return True


def stop(engine: Engine) -> bool:
    """Stop the container; False: it did not run."""
    if engine.guest().state != "running":
        return False
    engine.stop()
    return True


def destroy(engine: Engine) -> bool:
    """Remove a container that envlock made; False: there is none. Raises ContainerError for anybody else's."""
    guest = engine.guest()
    if guest.state == "absent" and not guest.ours:
        return False
    if not guest.ours:
        raise ContainerError(
            f"{engine.container.guest} was not made by envlock and stays",
            where=str(engine.host),
            hint="remove it by the means it was made with",
        )
    if guest.state == "running":
        engine.stop()
    engine.destroy()
    return True
