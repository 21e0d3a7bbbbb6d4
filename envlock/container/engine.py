"""What a container engine can do. The rest of the code cannot tell which one it is."""

from __future__ import annotations

from typing import Protocol

from envlock.container.declaration import Container
from envlock.container.facts import GuestFacts, HostFacts
from envlock.container.transport import Transport


class Engine(Protocol):
    """One engine on one host, for one declared container."""

    @property
    def container(self) -> Container:
        """Return the declaration, with the sources of its mounts filled in."""

    @property
    def host(self) -> Transport:
        """Return the way to the machine the engine runs on."""

    @property
    def inside(self) -> Transport:
        """Return the way into the running container."""

    def guest(self) -> GuestFacts:
        """Return what the engine knows of the container (`inside` is not looked at)."""

    def make_base(self, facts: HostFacts) -> None:
        """Make the distribution's root file system and keep it, where the engine has no template of its own."""

    def make_rootfs(self, facts: HostFacts) -> None:
        """Make the container's root file system and mark the container as made by envlock."""

    def write_config(self, facts: HostFacts) -> None:
        """Bring the engine's configuration to what the declaration says."""

    def start(self) -> None:
        """Start the container and wait until a command runs inside. Raises ContainerError with what the engine said."""

    def stop(self) -> None:
        """Stop it: asked first, forced after half a minute."""

    def destroy(self) -> None:
        """Remove it with its root file system. The caller has made sure that envlock made it."""
