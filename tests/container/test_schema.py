from __future__ import annotations

import tomllib

import pytest
from jsonschema import Draft202012Validator, ValidationError

from envlock.container.files import container_names
from envlock.container.schema import container_schema
from envlock.layout import Layout
from tests.container.test_reader import ROOT


def test_the_shipped_declarations_fit_the_schema() -> None:
    Draft202012Validator.check_schema(container_schema())
    for name in container_names(Layout(ROOT)):
        Draft202012Validator(container_schema()).validate(tomllib.loads(Layout(ROOT).container(name).read_text()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        'engine = "docker"',
        'engine = "lxc"\nid = 200',
        'engine = "proxmox"\nid = 200',
        'engine = "lxc"\nengne = 1',
        'engine = "lxc"\n[gpu]\ndevices = []',
        'engine = "lxc"\n[gpu]\ncapabilities = ["utility"]',
        'engine = "lxc"\n[[mount]]\nsource = "/a"',
        'engine = "lxc"\n[limits]\nshm = "much"',
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(text: str) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(container_schema()).validate(tomllib.loads(text))
