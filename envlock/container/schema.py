"""The JSON Schema of container/NAME.toml, from the words and bounds that the reader holds files against. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from envlock.container.declaration import DRIVERS, ENGINES, MOUNT_USES, Container, Gpus, Limits, Mount, Paths

_LINE = {"type": "string", "minLength": 1}
_SIZE = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(B|KiB|MiB|GiB|TiB)$"}
_FOLDER = {"type": "string", "pattern": r"^/[^ ,\t]*$"}
_FLAG = {"type": "boolean"}
_KEYS = {"gpus": "gpu", "mounts": "mount"}
"""Where the file's key is not the model's name with dashes."""


def container_schema() -> dict[str, Any]:
    """Return the schema (2020-12); every key of the model is in it, or this raises KeyError."""
    gpu = _table(
        Gpus,
        {
            "devices": {
                "oneOf": [
                    {"const": "all"},
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "string", "pattern": r"^([0-9]{1,2}|GPU-[0-9a-fA-F-]{8,})$"},
                    },
                ]
            },
            "driver": {"enum": list(DRIVERS)},
            "mode": {"type": "string", "pattern": "^0?[0-7]{3}$"},
            "gid": {"type": "integer", "minimum": 0, "maximum": 65535},
            "capabilities": {"type": "array", "items": _LINE, "contains": {"const": "compute"}},
        },
    )
    mount = _table(
        Mount,
        {"source": _FOLDER, "target": _FOLDER, "use": {"enum": list(MOUNT_USES)}, "read-only": _FLAG},
        required=["target"],
    )
    limits = _table(
        Limits,
        {
            "cores": {"type": "integer", "minimum": 1},
            "memory": _SIZE,
            "shm": _SIZE,
            "memlock": {"oneOf": [{"const": "unlimited"}, _SIZE]},
            "disk": {"type": "integer", "minimum": 1},
        },
    )
    schema = _table(
        Container,
        {
            "description": _LINE,
            "engine": {"enum": list(ENGINES)},
            "host": {"type": "string", "pattern": r"^[^-\s]\S*$"},
            "id": {"type": "integer", "minimum": 100},
            "distribution": {"enum": ["debian", "ubuntu"]},
            "release": {"type": "string", "pattern": "^[a-z][a-z0-9.-]*$"},
            "template": _LINE,
            "storage": _LINE,
            "packages": {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9+.-]+(=.+)?$"}},
            "privileged": _FLAG,
            "start-at-boot": _FLAG,
            "network": _LINE,
            "gpu": gpu,
            "mount": {"type": "array", "items": mount},
            "limits": limits,
            "paths": _table(Paths, {"project": _FOLDER, "store": _FOLDER, "uv-cache": _FOLDER}),
            "env": {"type": "object", "additionalProperties": _LINE},
            "config": {"type": "array", "items": _LINE},
        },
        required=["engine"],
        leave_out=("name",),
    )
    proxmox = {"properties": {"engine": {"const": "proxmox"}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envlock container",
        **schema,
        "if": proxmox,
        "then": {"required": ["id", "template"]},
        "else": {"properties": {"id": False, "template": False, "storage": False}},
    }


def _table(
    model: type, keys: dict[str, Any], *, required: list[str] | None = None, leave_out: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a closed table with exactly the model's keys, in the model's order."""
    names = [_KEYS.get(field.name, field.name.replace("_", "-")) for field in fields(model)]
    properties = {name: keys.pop(name) for name in names if name not in leave_out}
    if keys:
        raise KeyError(f"{model.__name__} has no {', '.join(keys)}")
    table: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**table, "required": required} if required else table
