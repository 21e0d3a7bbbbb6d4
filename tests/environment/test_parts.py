"""What was judged once of a part of site-packages counts again only where the very same files are claimed the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from envlock.environment import store
from envlock.environment.distributions import distributions, site_packages
from envlock.environment.inventory import read_inventory
from envlock.environment.parts import claim
from tests.support.project import Project


@pytest.fixture
def app(project: Project) -> Project:
    project.wheel("leaf", "1.0", files={"leaf/data.txt": "x", "space/leaf/__init__.py": "", "single.py": "X = 1\n"})
    project.wheel("twig", "1.0", files={"space/twig/__init__.py": "Y = 2\n"})
    project.simple_profile("app", "leaf", "twig")
    project.ok("lock")
    project.ok("sync")
    return project


def sealed(project: Project) -> tuple[str, dict[str, tuple[str, str]]]:
    prefix = store.current_prefix(project.layout, "app")
    entries = read_inventory(prefix)
    return store.read_seal(prefix).environment_digest, {
        path: (entry.sha256, entry.package) for path, entry in entries.items() if not entry.path.startswith("bin/")
    }


def kept(project: Project) -> list[Path]:
    return [path for path in (project.layout.cache / "parts").rglob("*") if path.is_file()]


def test_the_seal_is_the_same_with_parts_kept_and_without(app: Project) -> None:
    first = sealed(app)
    assert {Path(path).name for path in first[1]} >= {"data.txt", "single.py"}
    before = kept(app)
    assert len(before) >= 4  # leaf, twig, space, single.py
    app.ok("sync", "--rebuild")
    again = sealed(app)
    assert again[0] == first[0]
    generated = ("RECORD", "pyvenv.cfg", "uv_cache.json")
    assert {path: said for path, said in again[1].items() if not path.endswith(generated)} == {
        path: said for path, said in first[1].items() if not path.endswith(generated)
    }
    assert sorted(kept(app)) == sorted(before)
    shutil.rmtree(app.layout.cache / "parts")
    app.ok("sync", "--rebuild")
    assert sealed(app)[0] == first[0]
    assert app.run("verify", "app", "--tier", "static", "--deep").code == 0


def test_kept_parts_are_damaged_without_harm(app: Project) -> None:
    first = sealed(app)
    for number, path in enumerate(kept(app)):
        path.write_bytes((b"", b"no marshal", path.read_bytes()[: path.stat().st_size // 2])[number % 3])
    app.ok("sync", "--rebuild")
    assert sealed(app)[0] == first[0]


@pytest.mark.parametrize("path", ["leaf/data.txt", "space/twig/__init__.py", "single.py"])
def test_a_file_edited_through_a_hard_link_is_noticed_though_its_part_is_kept(app: Project, path: str) -> None:
    file = app.site("app") / path
    content = file.read_text()
    file.write_text(content + "# edited\n")
    assert "mending uv's cache" in app.ok("sync", "--rebuild").err
    assert (app.site("app") / path).read_text() == content
    assert app.run("verify", "app", "--tier", "static", "--deep").code == 0


def test_a_part_has_the_owners_that_this_environment_gives_it(app: Project) -> None:
    app.simple_profile("app", "leaf")
    app.ok("lock")
    app.ok("sync")
    assert {owner for path, (_, owner) in sealed(app)[1].items() if "space" in path} == {"leaf"}
    app.simple_profile("app", "leaf", "twig")
    app.ok("lock")
    app.ok("sync")
    assert {owner for path, (_, owner) in sealed(app)[1].items() if "space" in path} == {"leaf", "twig"}


def test_a_claim_tells_what_the_wheel_brought_from_what_the_installer_wrote(app: Project) -> None:
    found = {one.name: claim(one) for one in distributions(site_packages(app.prefix("app")))}
    assert found["leaf"].parts == {"leaf", "space", "single.py"}
    assert {record.path.rpartition("/")[2] for record in found["leaf"].records()} >= {"RECORD", "METADATA"}
    assert all("dist-info" in record.path for record in found["leaf"].records())
    app.ok("sync", "--rebuild")
    again = {one.name: claim(one) for one in distributions(site_packages(app.prefix("app")))}
    assert again["leaf"].digest == found["leaf"].digest
    assert again["leaf"].digest != again["twig"].digest


def test_gc_drops_what_no_sync_has_met_for_a_month(app: Project) -> None:
    old, *others = kept(app)
    os.utime(old, (1, 1))
    app.ok("gc", "--dry-run")
    assert old.exists()
    app.ok("gc")
    assert kept(app) == others
    app.ok("sync", "--rebuild")
    assert old.exists()
