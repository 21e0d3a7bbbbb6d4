"""Exports as values: held against the formats' own schemas, and the same bytes twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from envlock.lock.document import Artifact, Direct, Lock, Package
from envlock.lock.files import read_lock
from envlock.review.exports import FORMATS, cyclonedx

LOCKS = Path(__file__).parents[2] / "locks"


def odd() -> Lock:
    """A lock with everything that needs care: direct references, local versions, epochs, words for a licence."""
    wheel = Artifact(file="x.whl", size=None, sha256="0" * 64)
    git = Direct(kind="git", location="https://example.invalid/a b.git", revision="f" * 40, subdirectory="python")
    packages = (
        Package(name="epoch", version="1!2.0", index="pypi", artifacts=(wheel,), license='MIT "or" what'),
        Package(
            name="fromfile",
            version="1.0",
            index="",
            artifacts=(wheel,),
            direct=Direct(kind="path", location="file:./x y.whl"),
        ),
        Package(name="fromgit", version="1.0", index="", requires=("epoch",), direct=git),
        Package(
            name="local", version="2.9.1+cpu", index="pytorch-cpu", requires=("epoch>=1", "fromgit"), artifacts=(wheel,)
        ),
    )
    return Lock(
        profile="odd", profile_digest="0" * 64, inputs={}, python="3.11", machine="x86_64", glibc="2.28", torch=None,
        packages=packages,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["smoke", "train-cu128", "sglang-cu130", "odd"])
def test_a_bill_of_materials_is_valid_cyclonedx(name: str) -> None:
    lock = odd() if name == "odd" else read_lock(LOCKS / f"{name}.toml")[0]
    text = cyclonedx(lock, {})
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    assert len(document["components"]) == len(lock.packages)
    references = {component["bom-ref"] for component in document["components"]}
    assert len(references) == len(lock.packages)
    assert {one for entry in document["dependencies"] for one in (entry["ref"], *entry["dependsOn"])} <= references


def test_the_validator_would_tell() -> None:
    document = json.loads(cyclonedx(odd(), {}))
    document["components"][0]["type"] = "thing"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is not None


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_equal_locks_give_equal_bytes(form: str) -> None:
    urls = {"x.whl": "https://example.invalid/x.whl"}
    assert FORMATS[form](odd(), urls) == FORMATS[form](odd(), urls)
