"""What crosses into a launched process, by the rules: every variable has a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envlock.launch import environ, members, names

PREFIX = "/store/envs/train/0003-0123abcd"


def composed(
    caller: dict[str, str],
    *,
    sets: dict[str, str] | None = None,
    passed: list[str] | None = None,
    torch: str | None = "2.10.0+cu128",
    foreign: tuple[str, ...] = (),
    extra: dict[str, str] | None = None,
) -> environ.Composition:
    made = environ.plan(
        {"set": sets or {}, "pass": passed or []},
        profile="train",
        generation="0003-0123abcd",
        prefix=PREFIX,
        torch=torch,
        digest="d" * 64,
        cache_root="/store/cache/jit",
        verdict="pass",
    )
    return environ.apply(made, caller, foreign=foreign, extra=extra)


def why(result: environ.Composition, name: str) -> str:
    return next(f"{step.action}: {step.why}" for step in result.steps if step.name == name)


@pytest.mark.parametrize("name", [name for name, _ in names.NAMES] + list(members.MEMBERS))
def test_what_loads_code_is_dropped(name: str) -> None:
    result = composed({name: "/elsewhere", "PATH": "/usr/bin"})
    assert result.env.get(name) != "/elsewhere"


@pytest.mark.parametrize("name", ["PIP_NEVER_HEARD_OF", "UV_NEW", "CONDA_X", "PYTHONNEW", "LD_NEW", "NEW_NCCL_SO_PATH"])
def test_a_family_is_dropped_whole(name: str) -> None:
    result = composed({name: "x"})
    assert name not in result.env
    assert why(result, name).startswith("dropped: ")


@pytest.mark.parametrize(
    "name", ["HOME", "LANG", "LC_ALL", "SLURM_JOB_ID", "RANK", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "https_proxy",
             "OMP_NUM_THREADS", "NCCL_DEBUG", "HF_HOME", "MY_DATA", "ENVLOCK_HOME", "ENVLOCK_NO_GPU"]
)  # fmt: skip
def test_what_steers_no_code_crosses(name: str) -> None:
    result = composed({name: "value"})
    assert result.env[name] == "value"
    assert why(result, name).startswith("kept: ")


def test_every_variable_of_the_caller_is_explained_once() -> None:
    caller = {"HOME": "/h", "PYTHONPATH": "/x", "PATH": "/usr/bin", "VIRTUAL_ENV": "/other", "A-B": "1", "Z": ""}
    result = composed(caller)
    told = [step.name for step in result.steps]
    assert sorted(set(told)) == sorted(told)
    assert set(told) == set(caller) | set(result.env)


def test_a_glob_passes_a_family_but_never_a_loader() -> None:
    caller = {"LD_BIND_NOW": "1", "LD_PRELOAD": "/x.so", "PYTHONPATH": "/p", "PYTHONHASHSEED": "0"}
    result = composed(caller, passed=["LD_*", "PYTHON*"])
    assert result.env["LD_BIND_NOW"] == "1"
    assert result.env["PYTHONHASHSEED"] == "0"
    assert "LD_PRELOAD" not in result.env
    assert "PYTHONPATH" not in result.env
    assert "name it in `pass`" in why(result, "LD_PRELOAD")


def test_a_loader_named_letter_by_letter_is_passed() -> None:
    result = composed({"LD_PRELOAD": "/x.so"}, passed=["LD_*", "LD_PRELOAD"])
    assert result.env["LD_PRELOAD"] == "/x.so"


def test_what_the_profile_sets_wins_over_the_caller_and_defaults() -> None:
    result = composed(
        {"NCCL_DEBUG": "INFO"}, sets={"NCCL_DEBUG": "WARN", "TRITON_CACHE_DIR": "/fast"}, passed=["NCCL_*"]
    )
    assert result.env["NCCL_DEBUG"] == "WARN"
    assert result.env["TRITON_CACHE_DIR"] == "/fast"
    assert "'INFO' is replaced" in why(result, "NCCL_DEBUG")


def test_what_is_given_for_the_launch_wins_over_the_profile() -> None:
    assert composed({}, sets={"A": "1"}, extra={"A": "${HOME}"}).env["A"] == "${HOME}"


def test_references_are_replaced_without_a_shell() -> None:
    caller = {"HOME": "/home/a b", "X": "$(reboot)"}
    result = composed(caller, sets={"A": "${HOME}/x:${X}", "B": "$HOME `id` $(id)", "C": "$${HOME}", "D": "${not ok}"})
    assert result.env["A"] == "/home/a b/x:$(reboot)"
    assert result.env["B"] == "$HOME `id` $(id)"
    assert result.env["C"] == "${HOME}"
    assert result.env["D"] == "${not ok}"


def test_a_reference_to_nothing_is_an_error_that_names_both() -> None:
    with pytest.raises(environ.UndefinedReference, match=r"env\.set\.A refers to \$\{NOWHERE\}"):
        composed({}, sets={"A": "${NOWHERE}"})


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\0")))
def test_a_literal_survives_expansion(value: str) -> None:
    assert environ.expand("A", environ.literal(value), {}) == value


@pytest.mark.parametrize(
    ("torch", "honoured"),
    [("2.9.1+cu128", "PYTORCH_CUDA_ALLOC_CONF"), ("2.10.0+cu128", "PYTORCH_CUDA_ALLOC_CONF"),
     ("2.11.0+cu130", "PYTORCH_CUDA_ALLOC_CONF"), ("2.12.0+cu130", "PYTORCH_ALLOC_CONF"),
     ("2.14.1", "PYTORCH_ALLOC_CONF")],
)  # fmt: skip
@pytest.mark.parametrize("written", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_the_allocator_is_set_by_the_name_this_torch_honours(torch: str, honoured: str, written: str) -> None:
    other = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} - {honoured}
    result = composed({other.pop(): "garbage"}, sets={written: "expandable_segments:True"}, torch=torch)
    allocators = {name: value for name, value in result.env.items() if name.endswith("ALLOC_CONF")}
    assert allocators == {honoured: "expandable_segments:True"}


def test_without_a_torch_an_allocator_name_stays_as_written() -> None:
    assert composed({}, sets={"PYTORCH_ALLOC_CONF": "x"}, torch=None).env["PYTORCH_ALLOC_CONF"] == "x"


def test_caches_differ_between_torch_builds_of_one_profile() -> None:
    one, other = composed({}, torch="2.10.0+cu128").env, composed({}, torch="2.11.0+cu130").env
    for name, _ in names.CACHES:
        assert one[name] != other[name]
        assert one[name].startswith("/store/cache/jit/train/0123abcd-torch-2.10.0-cu128/")


def test_a_cache_of_the_caller_does_not_cross_unless_passed() -> None:
    assert composed({"TRITON_CACHE_DIR": "/old"}).env["TRITON_CACHE_DIR"] != "/old"


def test_path_begins_in_the_environment_and_leaves_other_environments_out() -> None:
    path = "/venv/bin:/usr/bin::relative:.:/home/me/.pyenv/shims:/usr/bin:/bin"
    result = composed({"PATH": path}, foreign=("/venv/bin",))
    assert result.env["PATH"] == f"{PREFIX}/bin:/usr/bin:/bin"


def test_the_child_is_told_where_it_runs() -> None:
    env = composed({"ENVLOCK_VERDICT": "forged", "ENVLOCK_PREFIX": "/x"}).env
    assert env["VIRTUAL_ENV"] == env["ENVLOCK_PREFIX"] == PREFIX
    assert env["PYTHON_EXEC"] == f"{PREFIX}/bin/python"
    assert env["ENVLOCK_PROFILE"] == "train"
    assert env["ENVLOCK_GENERATION"] == "0003-0123abcd"
    assert env["ENVLOCK_VERDICT"] == "pass"
    assert env["PYTHONNOUSERSITE"] == env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "PYTHONSAFEPATH" not in env


@given(st.text(alphabet="AB_*", max_size=6), st.text(alphabet="AB_", max_size=6))
def test_globs_match_as_fnmatch_does(pattern: str, name: str) -> None:
    from fnmatch import fnmatchcase

    assert names.matches(name, pattern) == fnmatchcase(name, pattern)


def test_the_page_on_environment_variables_names_every_variable() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "environment-variables.md").read_text()
    tables = [*names.FAMILIES, *names.NAMES, *names.CACHES]
    assert [name for name, _ in tables if f"| `{name}` |" not in page] == []
    assert [name for name in (*names.LOADERS, *names.HARMLESS) if f"`{name}`" not in page] == []
