"""The plainest forms of `why` and `diff` are answered apart, and must say what the full commands say."""

from __future__ import annotations

from tests.support.project import Project


def test_the_quick_and_the_full_command_say_the_same(project: Project) -> None:
    project.wheel("leaf", "1.0")
    project.wheel("tree", "1.0", requires=["leaf>=1"])
    project.simple_profile("app", "tree")
    project.simple_profile("other", "leaf")
    project.ok("lock")
    assert project.ok("why", "app", "leaf").out == project.ok("why", "app", "leaf", "--most", "12").out
    assert project.ok("why", "app", "Leaf").out == project.ok("why", "app", "leaf").out
    for form in ("text", "markdown", "json", "html"):
        quick = project.ok("diff", "app", "other", "--format", form)
        assert quick.out == project.ok("diff", "--format", form, "app", "other").out
    written = project.root / "page.html"
    assert "wrote" in project.ok("diff", "app", "other", "-o", str(written), "--format", "html").err
    assert written.read_text() == project.ok("diff", "app", "other", "--format", "html").out.removesuffix("\n")
    lock = project.layout.lock("app")
    lock.write_text(lock.read_text().replace("leaf>=1", "leaf>=2"))
    for words in (("why", "app", "leaf"), ("diff", "app", "other")):
        refused = project.run(*words)
        assert refused.code == 2
        assert "edited by hand" in refused.err
