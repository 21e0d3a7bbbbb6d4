"""What the lock says of device code is held against what was built, before anything is switched to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envlock.lock import text
from envlock.lock.document import Coverage, DeviceCode, Lock
from envlock.lock.files import load_lock
from tests.support import binaries as make
from tests.support import environments
from tests.support.project import Project
from tests.support.wheels import make_wheel

KERNEL = make.library(fatbin=environments.fat((make.SASS, 120, ""), (make.SASS, 90, ""), times=3))


@pytest.fixture
def stack(project: Project) -> Project:
    """A synced profile for 12.0 with one package of kernels, and one of none."""
    project.wheel("kern", "1.0", files={"kern/ops.so": KERNEL})
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "kern", "leaf", more='[gpu]\ncompute-capability = "12.0"\n')
    project.ok("lock")
    project.ok("sync")
    project.ok("lock", "--inspect")  # the wheels are at hand now
    project.ok("sync")
    return project


def say(project: Project, code: DeviceCode | None, package: str = "kern") -> None:
    """Write a lock that says something else of a package, as a merge done by hand would."""
    lock, _ = load_lock(project.layout, "app")
    packages = tuple(replace(item, device_code=code) if item.name == package else item for item in lock.packages)
    project.layout.lock("app").write_text(text.dump(replace(lock, packages=packages)))


def locked(project: Project) -> DeviceCode:
    lock: Lock = load_lock(project.layout, "app")[0]
    code = lock.by_name["kern"].device_code
    assert code is not None
    return code


def test_a_lock_that_says_more_than_the_wheel_holds_stops_the_sync(stack: Project) -> None:
    before = stack.layout.current("app").readlink()
    there = sorted(path.name for path in stack.layout.environments("app").iterdir() if path.name[0] == "0")
    for claim, word in (
        (replace(locked(stack), coverage={"12.0": Coverage(sass=4, ptx=0, none=0)}), "4 parts, of which 4 run on 12.0"),
        (replace(locked(stack), coverage={"12.0": Coverage(sass=2, ptx=1, none=0)}), "1 only after compiling PTX"),
        (replace(locked(stack), targets=("sm_120a", "sm_90")), "code for sm_120a sm_90"),
    ):
        say(stack, claim)
        for options in ((), ("--rebuild",)):
            refused = stack.run("sync", "app", *options)
            assert refused.code == 1
            for told in ("kern", "locks/app.toml: package kern: device-code", word, "envlock lock --inspect app"):
                assert told in refused.err.replace("\n", " "), refused.err
            assert ("3 parts, of which 3 run on 12.0" in refused.err) or "code for sm_120 sm_90" in refused.err
        assert stack.layout.current("app").readlink() == before
        assert sorted(path.name for path in stack.layout.environments("app").iterdir() if path.name[0] == "0") == there
    told = stack.run("sync", "app", "--json").json["profiles"][0]["error"]
    assert told["error"] == "CoverageDiffers"


def test_the_remedy_mends_it(stack: Project) -> None:
    good = locked(stack)
    say(stack, replace(good, coverage={"12.0": Coverage(sass=1, ptx=0, none=0)}))
    assert stack.run("sync", "app").code == 1
    stack.ok("lock", "--inspect", "app")
    assert locked(stack) == good
    stack.ok("sync", "app")


def test_code_where_there_is_none_stops_the_sync(stack: Project) -> None:
    say(stack, locked(stack), package="leaf")
    refused = stack.run("sync", "app")
    assert refused.code == 1
    assert "leaf holds other device code" in refused.err
    assert "no device code at all" in refused.err


def test_a_lock_that_says_nothing_stops_nothing(stack: Project) -> None:
    say(stack, None)
    stack.ok("sync", "app")


def test_a_foreign_environment_is_held_to_the_overlaps_of_the_profile_named(project: Project) -> None:
    """Two packages with one library: declared, it is the winner's bytes that must lie there, with --deep too."""
    for name, bytes_ in (("aa", "one"), ("bb", "two")):
        make_wheel(project.wheels, name, "1.0", files={"shared/lib.so": make.library(needed=[f"lib{bytes_}.so"])})
    project.simple_profile("app", "aa", "bb", more='[overlaps]\naa = ["bb"]\n')
    project.ok("lock")
    project.ok("sync")
    site, python = project.site("app"), str(project.prefix("app") / "bin" / "python")
    for deep in ((), ("--deep",)):
        named = project.ok("verify", "app", "--python", python, "--tier", "static", "--json", *deep)
        found = {check["id"]: check for check in named.json["checks"]}
        assert found["files.one-owner"]["found"] == "1 overlaps, all declared"
        alone = project.run("verify", "--python", python, "--tier", "static", "--json", *deep)
        bare = {check["id"]: check for check in alone.json["checks"]}
        assert bare["files.one-owner"]["status"] == "fail"
        assert "verify NAME --python PATH" in bare["files.one-owner"]["remedy"]
        assert bare["files.drift"]["status"] != "fail", bare["files.drift"]
    library = site / "shared" / "lib.so"
    library.unlink()
    library.write_bytes(make.library(needed=["libtwo.so"]))  # the loser's
    swapped = project.run("verify", "app", "--python", python, "--tier", "static", "--json", "--deep")
    found = {check["id"]: check for check in swapped.json["checks"]}
    assert found["files.drift"]["status"] == "fail"
    assert "shared/lib.so" in found["files.drift"]["found"]


def test_what_an_edited_seal_says_is_told_and_not_believed(project: Project) -> None:
    hopper = make.library(fatbin=environments.fat((make.SASS, 90, "")))
    project.wheel("kern", "1.0", files={"kern/ops.so": hopper})
    gpu = '[gpu]\ncompute-capability = "12.0"\n[kernels]\nrequire = ["kern"]\n'
    project.simple_profile("app", "kern", more=gpu)
    project.ok("lock")
    project.ok("sync")

    def checks(*words: str) -> dict[str, dict[str, str]]:
        said = project.run("verify", "app", "--tier", "static", "--json", *words)
        assert said.code == 1
        return {check["id"]: check for check in said.json["checks"]}

    assert checks()["files.seal"]["status"] == "pass"
    seal = project.prefix("app") / "seal"
    code = (seal / "code.json").read_text()
    assert "sm_90" in code
    (seal / "code.json").write_text(code.replace("sm_90", "sm_120"))
    found = checks()
    assert (found["files.seal"]["status"], found["files.seal"]["found"]) == ("fail", "code.json: edited or gone")
    assert "envlock sync --rebuild app" in found["files.seal"]["remedy"]
    assert found["kernels.required"]["status"] == "fail"  # told by the file itself
    (seal / "code.json").unlink()
    assert checks()["files.seal"]["status"] == "fail"
    (seal / "code.json").write_text(code)
    with (seal / "inventory").open("a") as file:
        file.write("0\t0\t0\t\tno-such-file\n")
    assert checks()["files.seal"]["status"] == "pass"
    assert checks("--deep")["files.seal"]["found"] == "inventory: edited or gone"
    project.ok("sync", "--rebuild", "app")
    assert checks()["files.seal"]["status"] == "pass"


def test_a_damaged_lock_is_no_missing_one(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock")
    project.ok("sync")
    python = str(project.prefix("app") / "bin" / "python")
    path = project.layout.lock("app")
    path.write_text(path.read_text().replace('name = "leaf"', 'name = "leaves"'))
    assert project.run("verify", "app", "--python", python).code == 2
    path.unlink()
    assert project.run("verify", "app", "--python", python).code == 0
