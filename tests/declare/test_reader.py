"""Profiles as text: everything that can be wrong is told at once, with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envlock.declare.files import load_profile, profile_names
from envlock.declare.profile import fingerprint
from envlock.declare.reader import KEYS, read_profile
from envlock.declare.schema import profile_schema
from envlock.errors import ProfileError, UsageError
from envlock.layout import Layout

ROOT = Layout(Path(__file__).parent.parent.parent)
GOOD = 'python = "3.11"\nrequirements = ["six"]\n'


def faults(text: str, **others: str) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        read_profile("app", {"app": text, **others})
    return [fault.render("app.toml") for fault in caught.value.faults]


@pytest.mark.parametrize("name", profile_names(ROOT))
def test_the_shipped_profiles_read_and_validate(name: str) -> None:
    assert load_profile(ROOT, name).python == "3.11"
    jsonschema.validate(tomllib.loads(ROOT.profile(name).read_text()), profile_schema())


def test_all_faults_are_told_at_once_with_line_and_nearest_key() -> None:
    found = faults('pyhton = "3.11"\nrequirements = ["six=="]\n[torch]\nversoin = "2.10.0"\ncuda = "12,8"\n')
    assert [line.split(": ")[0] for line in found] == [f"profiles/app.toml:{line}" for line in (2, 5, 4, 1)]
    assert "did you mean 'version'" in found[2]
    assert "did you mean 'python'" in found[3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("requirements = [", "not TOML"),
        ('python = "2.7"\n', "must be one of"),
        ('requirements = "six"\npython = "3.11"\n', "must be a list"),
        ('python = "3.11"\nrequirements = ["x @ https://example.invalid/x.whl"]\n', "pin the file"),
        ('python = "3.11"\nrequirements = ["x @ git+https://example.invalid/x@main"]\n', "full commit"),
        ('python = "3.11"\n[torch]\nversion = "2.11.0+cu128"\ncuda = "13.0"\n', "contradicts cuda"),
        ('python = "3.11"\n[torch]\nversion = "2.11.0"\ncuda = "13.0"\nindex = "nowhere"\n', "no [[index]]"),
        ('python = "3.11"\n[torch]\nversion = "2.11.0"\n', "torch.cuda: is missing"),
        (
            'python = "3.11"\nrequirements = ["torch<2"]\n[torch]\nversion = "2.11.0"\ncuda = "13.0"\n',
            "contradicts [torch]",
        ),
        ('python = "3.11"\n[[index]]\nname = "a"\nurl = "https://u:p@example.invalid/simple"\n', "ENVLOCK_INDEX_A_URL"),
        ('python = "3.11"\n[gpu]\ncompute-capability = "12.0"\nmin-free-memory = "90 GB"\n', "must be a size"),
        ('python = "3.11"\n[kernels.accept-missing]\n"x/*" = " "\n', "needs a reason"),
        ('python = "3.11"\n[env]\npass = ["LD_LIBRARY_PATH"]\n', "may not cross"),
        ('python = "3.11"\nrequirements = ["six"]\nexclude = ["six"]\n', "required and excluded"),
        ('requirements = ["six"]\n', "python: is missing"),
        ('python = "3.11"\nlinks = "hardlnk"\n', "did you mean 'hardlink'"),
    ],
)
def test_what_is_wrong_is_told(text: str, expected: str) -> None:
    assert any(expected in line for line in faults(text)), faults(text)


def test_extends_merges_tables_appends_lists_and_replaces_scalars() -> None:
    base = 'python = "3.11"\nrequirements = ["six"]\n[env]\npass = ["HF_*"]\n[env.set]\nA = "1"\n'
    child = 'extends = "base"\nrequirements = ["idna", "six"]\npython = "3.12"\n[env.set]\nB = "2"\n'
    profile = read_profile("app", {"app": child, "base": base})
    assert profile.python == "3.12"
    assert profile.requirements == ("six", "idna")
    assert profile.env.set == {"A": "1", "B": "2"}
    assert profile.env.pass_ == ("HF_*",)
    assert profile.extends == ("base",)


def test_circles_and_missing_parents_are_named_with_the_whole_way() -> None:
    assert "app extends other extends app" in faults('extends = "other"\n', other='extends = "app"\n')[0]
    assert "a circle: app extends app" in faults('extends = "app"\n')[0]
    assert "there is no profiles/nowhere.toml: app extends nowhere" in faults('extends = "nowhere"\n')[0]


def test_a_fault_of_a_parent_is_told_at_the_parent() -> None:
    with pytest.raises(ProfileError) as caught:
        read_profile("app", {"app": 'extends = "base"\n', "base": "python = 3\n"})
    assert caught.value.file == "profiles/base.toml"


def test_faults_of_every_file_of_a_chain_are_told_at_once() -> None:
    found = faults('extends = "base"\nlinks = "hardlnk"\n', base='extends = "root"\npython = 3\n', root="pyhton = 1\n")
    assert [line.split(": ")[0] for line in found] == [
        "profiles/app.toml:2",
        "profiles/base.toml:2",
        "profiles/root.toml:1",
    ]


def test_what_only_the_whole_contradicts_is_told_where_its_value_stands() -> None:
    base = 'python = "3.11"\n\n[torch]\nversion = "2.11.0+cu128"\ncuda = "12.8"\n'
    found = faults('extends = "base"\n[torch]\ncuda = "13.0"\n', base=base)
    assert found == ["profiles/base.toml:4: torch.version: +cu128 contradicts cuda = '13.0'"]
    missing = faults('extends = "base"\n', base='python = "3.11"\n[torch]\nversion = "2.11.0"\n')
    assert missing[0].startswith("profiles/base.toml:2: torch.cuda: is missing")


_TORCH = '[torch]\nversion = "2.11.0"\ncuda = {}\n'
_INDEX = '[[index]]\nname = "a"\nurl = "{}"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (_INDEX.format("https://[::1"), "url"),
        (_INDEX.format("https://example.invalid:99999/simple"), "url"),
        (_INDEX.format("https://example.invalid:port/simple"), "url"),
        (_INDEX.format("https://"), "url"),
        (_INDEX.format("https:///simple"), "url"),
        (_INDEX.format("ftp://example.invalid/simple"), "url"),
        (_INDEX.format("https://example.invalid/a b"), "url"),
        (_INDEX.format("example.invalid/simple"), "url"),
        (f'requirements = ["x @ https://example.invalid:99999/x.whl#sha256={"0" * 64}"]\n', "requirements"),
        (f'requirements = ["x @ ftp://example.invalid/x.whl#sha256={"0" * 64}"]\n', "requirements"),
        ('exclude-newer = "2026-99-99"\n', "exclude-newer"),
        ('exclude-newer = "2026-02-29"\n', "exclude-newer"),
        ('exclude-newer = "2026-11-30T25:00:00Z"\n', "exclude-newer"),
        (_TORCH.format('"\u0661\u0662.\u0668"'), "torch.cuda"),
        ('[gpu]\ncompute-capability = "\u0661\u0662.\u0660"\n', "gpu.compute-capability"),
        ('[gpu]\ncompute-capability = "12.0"\nmin-driver = "\u0665\u0667\u0660.26"\n', "gpu.min-driver"),
        ('[gpu]\ncompute-capability = "12.0"\nmin-free-memory = "\u0669 GiB"\n', "gpu.min-free-memory"),
        ('[platform]\nglibc = "2.\u0663\u0665"\n', "platform.glibc"),
    ],
)
def test_values_that_only_look_right_are_faults(text: str, key: str) -> None:
    found = faults(f'python = "3.11"\n{text}')
    assert len(found) == 1
    assert key in found[0]
    assert read_profile("app", {"app": 'python = "3.11"\nexclude-newer = "2028-02-29"\n'}).exclude_newer == "2028-02-29"


def test_order_and_comments_do_not_change_the_fingerprint_but_wishes_do() -> None:
    def digest(text: str) -> str:
        return fingerprint(read_profile("app", {"app": text}))

    assert digest(GOOD) == digest(
        '# words\nrequirements = ["six"]\npython = "3.11"\ndescription = "x"\nlinks = "copy"\n'
    )
    assert digest(GOOD) != digest('python = "3.11"\nrequirements = ["six", "idna"]\n')
    assert digest(GOOD) != digest(GOOD + '[env.set]\nA = "1"\n')


def test_schema_and_reader_know_the_same_keys() -> None:
    assert set(profile_schema()["properties"]) == set(KEYS)
    for text in ('python = "3.11"\nunknown = 1\n', 'python = "3.11"\n[torch]\nversoin = "1"\n', "python = 3\n"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(tomllib.loads(text), profile_schema())
        assert faults(text)


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, '[torch]\nversion = "' + "9" * 5000 + '"\ncuda = "12.8"\n'])
def test_numbers_of_thousands_of_digits_are_faults(text: str) -> None:
    assert faults(text)


def test_a_deep_diamond_of_parents_is_walked_once() -> None:
    texts = {"p0": 'python = "3.11"\n'}
    for layer in range(1, 40):
        texts[f"q{layer}"] = f'extends = "p{layer - 1}"\n'
        texts[f"r{layer}"] = f'extends = "p{layer - 1}"\n'
        texts[f"p{layer}"] = f'extends = ["q{layer}", "r{layer}"]\n'
    assert read_profile("p39", texts).python == "3.11"


def test_names_that_are_no_profiles(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "train.toml").write_text(GOOD)
    for name in ("../x", "a.b", "", "A", "x" * 65):
        with pytest.raises(UsageError, match="cannot name a profile"):
            load_profile(Layout(tmp_path), name)
    with pytest.raises(UsageError, match="there is no profile") as caught:
        load_profile(Layout(tmp_path), "trian")
    assert caught.value.hint == "did you mean 'train'?"


_VALUES = st.recursive(
    st.one_of(st.text(max_size=12), st.integers(), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "x", "version"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "odd"]), _VALUES, max_size=6))
def test_any_toml_gives_a_profile_or_a_profile_error(data: dict[str, Any]) -> None:
    import tomlkit

    try:
        read_profile("app", {"app": tomlkit.dumps(data)})
    except ProfileError as error:
        assert error.faults


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_gives_a_profile_or_a_profile_error(text: str) -> None:
    try:
        read_profile("app", {"app": text})
    except ProfileError as error:
        assert error.faults
