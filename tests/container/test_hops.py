from __future__ import annotations

import shlex
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from envlock.container.hops import Command, LxcAttach, Pct, Ssh, across, exports, words

HOSTILE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def test_each_hop_is_told_to_keep_the_callers_environment_out() -> None:
    assert across([LxcAttach(name="a")], ["x"]) == ("lxc-attach", "-n", "a", "--clear-env", "--", "x")
    assert across([Pct(id="200")], ["x"]) == ("pct", "exec", "200", "--keep-env", "0", "--", "x")
    assert words(Command(argv=("x",)))[:2] == ("env", "-i")


def test_ssh_alone_quotes_and_once_per_ssh() -> None:
    argv = across([Ssh(destination="root@pve"), Pct(id="200")], ["echo", "a b", "$HOME"])
    assert argv[:4] == ("ssh", "-T", "--", "root@pve")
    assert shlex.split(argv[4]) == ["pct", "exec", "200", "--keep-env", "0", "--", "echo", "a b", "$HOME"]
    twice = across([Ssh(destination="a"), Ssh(destination="b")], ["x y"], terminal=True)
    assert "-tt" in twice
    assert shlex.split(shlex.split(twice[-1])[-1]) == ["x y"]


@given(st.lists(HOSTILE, max_size=6))
def test_two_login_shells_take_off_what_two_ssh_put_on(arguments: list[str]) -> None:
    argv = across([Ssh(destination="a"), Ssh(destination="b")], arguments)
    outer = shlex.split(argv[-1])
    assert shlex.split(outer[-1]) == arguments


@given(HOSTILE)
def test_exported_values_survive_the_shell(value: str) -> None:
    done = subprocess.run(
        ["sh", "-c", exports({"X": value}) + 'printf %s "$X"'],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert done.stdout == value.encode()
