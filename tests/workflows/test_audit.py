"""`envlock audit`: a real uv and a real index on loopback; the advisory service is a fake behind its real protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.errors import NotAudited
from envlock.resolve.advisories import batches, read_answer
from envlock.resolve.listing import Listed, read_page
from tests.support.advisories import FakeAdvisories, advising
from tests.support.index import serving
from tests.support.project import Project
from tests.support.wheels import make_wheel


@pytest.fixture
def service(project: Project) -> Iterator[FakeAdvisories]:
    with advising() as fake:
        project.env["ENVLOCK_ADVISORIES_URL"] = fake.url
        yield fake


@pytest.fixture
def app(project: Project) -> Project:
    project.wheel("leaf", "1.0")
    project.wheel("tree", "1.0", requires=["leaf>=1"])
    project.simple_profile("app", "tree")
    project.ok("lock")
    return project


def test_clean_is_said_only_after_everything_was_asked(app: Project, service: FakeAdvisories) -> None:
    before = len(app.index.requests)
    result = app.ok("audit")
    assert result.out == "app: 2 packages, no known vulnerability, nothing yanked\n"
    assert sorted(service.asked) == [("leaf", "1.0"), ("tree", "1.0")]
    assert sorted(app.index.requests[before:]) == ["/simple/leaf/", "/simple/tree/"]
    assert app.ok("audit", "--json").json == {
        "complete": True,
        "profiles": [
            {
                "name": "app",
                "packages": 2,
                "complete": True,
                "vulnerabilities": [],
                "files": [],
                "not_audited": [],
                "notes": [],
            }
        ],
    }


def test_a_vulnerability_is_told_with_its_names_and_its_mend(app: Project, service: FakeAdvisories) -> None:
    service.knows("leaf", "1.0", "GHSA-aaaa-bbbb-cccc", aliases=("CVE-2026-1",), fixed="1.5")
    result = app.run("audit", "app")
    assert result.code == 1
    assert "1 known vulnerability" in result.out
    assert "leaf 1.0: GHSA-aaaa-bbbb-cccc (CVE-2026-1): leaf does it wrong" in result.out
    assert "mended in 1.5" in result.out
    told = app.run("audit", "--json")
    assert told.code == 1
    assert told.json["profiles"][0]["vulnerabilities"] == [
        {
            "id": "GHSA-aaaa-bbbb-cccc",
            "aliases": ["CVE-2026-1"],
            "package": "leaf",
            "version": "1.0",
            "fixed": ["1.5"],
            "summary": "leaf does it wrong",
            "link": told.json["profiles"][0]["vulnerabilities"][0]["link"],
        }
    ]
    assert app.run("audit", "--fail-on", "critical").code == 0


def test_yanked_gone_and_other_bytes(app: Project, service: FakeAdvisories) -> None:
    app.index.yanked.add("leaf-1.0-py3-none-any.whl")
    result = app.run("audit", "--json")
    assert result.code == 1
    assert result.json["profiles"][0]["files"] == [
        {
            "id": "audit.yanked",
            "severity": "medium",
            "package": "leaf",
            "text": "leaf 1.0: leaf-1.0-py3-none-any.whl is yanked: broken build",
        }
    ]
    assert app.run("audit", "--fail-on", "high").code == 0
    app.index.wrong_hash.add("leaf-1.0-py3-none-any.whl")
    (app.wheels / "tree-1.0-py3-none-any.whl").unlink()
    result = app.run("audit", "--json")
    assert [(each["id"], each["package"]) for each in result.json["profiles"][0]["files"]] == [
        ("audit.other-bytes", "leaf"),
        ("audit.gone", "tree"),
    ]


@pytest.mark.parametrize("fault", ["down", "500", "garbage"])
def test_a_service_that_does_not_answer_is_not_a_clean_lock(app: Project, service: FakeAdvisories, fault: str) -> None:
    service.faults.add(fault)
    result = app.run("audit")
    assert result.code == 3
    assert "not audited: the advisory service could not be asked" in result.out
    assert "no known vulnerability" not in result.out
    assert "nothing yanked" in result.out  # that was asked
    told = app.run("audit", "--json")
    assert told.code == 3
    assert told.json["complete"] is False
    assert told.json["profiles"][0]["vulnerabilities"] is None
    assert told.json["profiles"][0]["not_audited"][0]["packages"] == ["leaf", "tree"]


@pytest.mark.parametrize("fault", ["down", "500"])
def test_an_index_that_does_not_answer_is_not_a_clean_lock(app: Project, service: FakeAdvisories, fault: str) -> None:
    app.index.faults.add(fault)
    result = app.run("audit")
    assert result.code == 3
    assert "not audited: index pypi could not be asked" in result.out
    assert "nothing yanked" not in result.out
    assert "no known vulnerability" in result.out


def test_what_was_found_counts_more_than_what_was_not_asked(app: Project, service: FakeAdvisories) -> None:
    service.faults.add("down")
    app.index.yanked.add("leaf-1.0-py3-none-any.whl")
    assert app.run("audit").code == 1
    assert app.run("audit", "--fail-on", "critical").code == 3


def test_each_package_is_asked_of_its_own_index_with_its_login(
    app: Project, service: FakeAdvisories, tmp_path: Path
) -> None:
    make_wheel(tmp_path / "inside", "secret", "1.0")
    with serving(tmp_path / "inside", login=("me", "p@ss")) as inside:
        bare = inside.url.replace("me:p@ss@", "")
        app.env["ENVLOCK_INDEX_INSIDE_URL"] = inside.url.replace("p@ss", "p%40ss")
        app.simple_profile(
            "app", "tree", "secret", more=f'[[index]]\nname = "inside"\nurl = "{bare}"\nonly = ["secret"]\n'
        )
        app.ok("lock")
        inside.yanked.add("secret-1.0-py3-none-any.whl")
        before, outside = len(inside.requests), len(app.index.requests)
        result = app.run("audit")
        assert result.code == 1
        assert "secret 1.0: secret-1.0-py3-none-any.whl is yanked" in result.out
        assert inside.requests[before:] == ["/simple/secret/"]
        assert "/simple/secret/" not in app.index.requests[outside:]
        assert "p@ss" not in result.out + result.err and "p%40ss" not in result.out + result.err


def test_two_locks_with_two_versions_are_asked_about_once_each(app: Project, service: FakeAdvisories) -> None:
    app.wheel("leaf", "2.0")
    app.simple_profile("other", "leaf==2.0")
    app.simple_profile("third", "leaf==1.0")
    app.ok("lock")
    service.knows("leaf", "2.0", "X-2")
    before = len(app.index.requests)
    result = app.run("audit", "--json")
    found = {one["name"]: [each["id"] for each in one["vulnerabilities"]] for one in result.json["profiles"]}
    assert found == {"app": [], "other": ["X-2"], "third": []}
    assert sorted(service.asked) == [("leaf", "1.0"), ("leaf", "2.0"), ("tree", "1.0")]
    assert sorted(app.index.requests[before:]) == ["/simple/leaf/", "/simple/tree/"]


def test_a_local_version_is_asked_about_by_its_public_part(project: Project, service: FakeAdvisories) -> None:
    project.wheel("leaf", "1.0+cu128")
    project.simple_profile("app", "leaf==1.0+cu128")
    project.ok("lock")
    service.knows("leaf", "1.0", "X-1")
    told = project.run("audit", "--json").json["profiles"][0]["vulnerabilities"]
    assert [(each["id"], each["version"], each["fixed"]) for each in told] == [("X-1", "1.0+cu128", [])]


def test_what_comes_from_no_index_is_noted_and_a_missing_lock_is_an_error(
    app: Project, service: FakeAdvisories
) -> None:
    wheel = app.wheel("own", "1.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    files = app.index.url.replace("/simple", "/files")
    app.simple_profile("app", f"own @ {files}/{wheel.name}#sha256={digest}")
    app.ok("lock")
    result = app.ok("audit")
    assert "note: own comes from no index that could withdraw it" in result.out
    app.simple_profile("unlocked", "tree")
    assert app.run("audit", "unlocked").code == 1


def test_an_answer_about_fewer_packages_is_no_answer() -> None:
    group = {"a": "1", "b": "2"}
    whole = {"summary": {"audited_packages": 2}, "vulnerabilities": []}
    assert read_answer(json.dumps(whole), "", 0, group) == {("a", "1"): (), ("b", "2"): ()}
    with pytest.raises(NotAudited, match="not ask for every package"):
        read_answer(json.dumps({**whole, "summary": {"audited_packages": 1}}), "", 0, group)
    with pytest.raises(NotAudited, match="cannot be read"):
        read_answer('{"schema": "later"}', "", 0, group)
    with pytest.raises(NotAudited, match="could not be asked"):
        read_answer(json.dumps(whole), "error: killed", 2, group)


def test_each_name_stands_once_in_a_batch() -> None:
    assert batches([("a", "1"), ("a", "2"), ("b", "1"), ("a", "1")]) == [{"a": "1", "b": "1"}, {"a": "2"}]


def test_both_forms_of_an_index_page_tell_the_same() -> None:
    page = (
        '<a href="../../f/a-1%2Bx.whl#sha256=aa" data-yanked="bad &amp; old">a</a><a href="b.whl" data-yanked>b</a>'
        '<a href="c.whl#sha256=cc">c</a>'
    )
    document = {
        "files": [
            {"filename": "a-1+x.whl", "hashes": {"sha256": "aa"}, "yanked": "bad & old"},
            {"filename": "b.whl", "hashes": {}, "yanked": True},
            {"filename": "c.whl", "hashes": {"sha256": "cc"}},
        ]
    }
    expected = {
        "a-1+x.whl": Listed(sha256="aa", yanked="bad & old"),
        "b.whl": Listed(sha256="", yanked=""),
        "c.whl": Listed(sha256="cc", yanked=None),
    }
    assert read_page(page.encode(), "text/html; charset=utf-8") == expected
    assert read_page(json.dumps(document).encode(), "application/vnd.pypi.simple.v1+json") == expected
