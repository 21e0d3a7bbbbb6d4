from __future__ import annotations

from envlock.declare import edit
from envlock.declare.reader import read_profile
from tests.support.project import Project

TEXT = """# our stack
python = "3.11"   # the one on the hosts
requirements = [
  "six",          # for old code
  "Flask-Cors>=4",
]

[env]
pass = ["HF_*"]
"""


def test_adding_keeps_comments_and_order() -> None:
    text, replaced = edit.add(TEXT, "idna>=3")
    assert replaced is None
    assert "# for old code" in text
    assert "# the one on the hosts" in text
    assert read_profile("app", {"app": text}).requirements == ("six", "Flask-Cors>=4", "idna>=3")


def test_adding_a_name_that_is_there_replaces_its_specifier_whatever_its_spelling() -> None:
    text, replaced = edit.add(TEXT, "flask_cors==5.0")
    assert replaced == "Flask-Cors>=4"
    assert read_profile("app", {"app": text}).requirements == ("six", "flask_cors==5.0")


def test_adding_to_a_profile_without_requirements_puts_them_before_its_tables() -> None:
    text, _ = edit.add('python = "3.11"\n\n[env]\npass = ["HF_*"]\n', "six")
    profile = read_profile("app", {"app": text})
    assert profile.requirements == ("six",)
    assert profile.env.pass_ == ("HF_*",)


def test_removing() -> None:
    text, gone = edit.remove(TEXT, "flask.cors")
    assert gone == "Flask-Cors>=4"
    assert read_profile("app", {"app": text}).requirements == ("six",)
    assert edit.remove(TEXT, "torch") == (TEXT, None)


def test_init_add_remove_through_the_command_line(project: Project) -> None:
    project.ok("init", "app", "--python", "3.11", "-r", "six", "--torch", "2.10.0", "--cuda", "12.8", "--gpu", "12.0")
    assert "/.envlock/" in (project.root / ".gitignore").read_text()
    again = project.run("init", "app")
    assert again.code == 2
    assert "there already" in again.err
    project.ok("add", "app", "idna>=3", "six==1.17.0")
    assert '"six==1.17.0"' in project.layout.profile("app").read_text()
    project.ok("remove", "app", "idna")
    project.profile("child", 'extends = "app"\n')
    inherited = project.run("remove", "child", "six")
    assert inherited.code == 2
    assert "envlock remove app six" in inherited.err
    bad = project.run("add", "app", "six==")
    assert bad.code == 2
    assert '"six==1.17.0"' in project.layout.profile("app").read_text()


def test_the_schema_is_printed_for_editors(project: Project) -> None:
    assert project.ok("schema").json["title"] == "envlock profile"
    assert "properties" in project.ok("schema", "container").json
