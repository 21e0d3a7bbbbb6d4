"""What a lock records of its packages beside names and hashes: installed sizes, and what its index withdrew."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path
from typing import Any

from tests.support.project import Project
from tests.support.wheels import make_wheel


def packages(project: Project, name: str = "app") -> dict[str, dict[str, Any]]:
    data = tomllib.loads(project.layout.lock(name).read_text())
    return {package["name"]: package for package in data["package"]}


def unpacked(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        return sum(len(archive.read(name)) for name in archive.namelist())


def test_a_lock_tells_what_its_wheels_unpack_to(project: Project) -> None:
    wheel = project.wheel("leaf", "1.0", files={"leaf/data.bin": b"x" * 300_000})
    project.simple_profile("app", "leaf")
    project.ok("lock")
    assert packages(project)["leaf"]["installed-size"] == unpacked(wheel)
    assert unpacked(wheel) > 300_000 > wheel.stat().st_size


def test_no_inspect_leaves_it_out_and_inspect_brings_it_moving_nothing(project: Project) -> None:
    wheel = project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf")
    project.ok("lock", "--no-inspect")
    without = project.layout.lock("app").read_text()
    assert "installed-size" not in packages(project)["leaf"]
    project.wheel("leaf", "2.0")
    project.ok("lock")
    assert project.layout.lock("app").read_text() == without
    project.ok("lock", "--inspect")
    assert packages(project)["leaf"]["version"] == "1.0"
    assert packages(project)["leaf"]["installed-size"] == unpacked(wheel)
    first = project.layout.lock("app").read_text()
    added = set(first.splitlines()) - set(without.splitlines())
    assert {line.split(" = ")[0] for line in added} == {"content-digest", "installed-size"}
    project.ok("lock", "--inspect")
    assert project.layout.lock("app").read_text() == first


def test_a_server_without_ranges_makes_a_lock_without_sizes(project: Project) -> None:
    project.index.faults.add("no-ranges")
    project.wheel("leaf", "1.0", files={"leaf/data.bin": b"x" * 300_000})
    project.simple_profile("app", "leaf")
    project.ok("lock")
    assert "installed-size" not in packages(project)["leaf"]


def test_a_yanked_file_is_warned_of_and_recorded(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.wheel("good", "1.0")
    project.simple_profile("app", "leaf==1.0", "good")
    project.index.yanked.add("leaf-1.0-py3-none-any.whl")
    result = project.ok("lock")
    assert "warning: leaf 1.0 is yanked: broken build" in result.err
    assert "good 1.0 is yanked" not in result.err
    assert packages(project)["leaf"]["yanked"] == "broken build"
    assert "yanked" not in packages(project)["good"]
    again = project.ok("lock")
    assert "leaf 1.0 is yanked" in again.err  # told each time, also where nothing else is looked at
    assert project.ok("lock", "--json", "--inspect").json["profiles"][0]["yanked"] == [
        {"name": "leaf", "version": "1.0", "reason": "broken build"}
    ]


def test_what_is_yanked_later_is_a_finding_of_diff(project: Project, tmp_path: Path) -> None:
    project.wheel("leaf", "1.0")
    project.simple_profile("app", "leaf==1.0")
    project.ok("lock")
    old = tmp_path / "old.toml"
    old.write_text(project.layout.lock("app").read_text())
    project.index.yanked.add("leaf-1.0-py3-none-any.whl")
    make_wheel(project.wheels, "more", "1.0")
    project.simple_profile("app", "leaf==1.0", "more")
    project.ok("lock")
    result = project.run("diff", str(old), "app", "--fail-on", "medium", "--json")
    assert result.code == 1
    found = {finding["id"]: finding for finding in result.json["findings"]}
    assert found["source.yanked"]["text"] == "leaf 1.0 is now yanked: broken build"
    assert "source.yanked" not in str(project.ok("diff", "app", "app", "--json").json["findings"])
