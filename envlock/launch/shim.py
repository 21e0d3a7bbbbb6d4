"""The text of the shim, and of the ticket it reads: POSIX sh without a fork. Pure.

The shim itself is small and never changes with the environment. The ticket beside the generations holds the facts of
the last verification as shell tests, and the composition of the environment; the shim sources it. When a test fails, or
there is no ticket, the shim becomes `envlock run`, which verifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envlock.launch import environ, names, ticket
from envlock.launch.members import MEMBERS

VITAL = 250
"""How many of the stamp's vital paths the shim compares: 3 microseconds each."""


def quote(text: str) -> str:
    """Return one shell word that stands for exactly this text."""
    return "'" + text.replace("'", "'\\''") + "'"


def text(name: str, *, project: str, home: str, interpreter: str) -> str:
    """Return the shim of a profile."""
    own_home = "" if home == f"{project}/.envlock" else f"ENVLOCK_HOME={quote(home)}\n\texport ENVLOCK_HOME\n\t"
    return f"""#!/bin/sh
# Launches the sealed environment of profile {name}: {name} [--no-gpu] COMMAND...
# Written by `envlock sync`; docs/launch.md tells how it works. Nothing here forks.
_envlock_run() {{
	if [ ! -x {quote(interpreter)} ]; then
		printf 'envlock: the Python that wrote this shim is gone: %s\n' {quote(interpreter)} >&2
		printf '  try: envlock sync %s\n' {name} >&2
		exit 125
	fi
	{own_home}exec {quote(interpreter)} -I -c 'import sys
from envlock.__main__ import main
main()' -C {quote(project)} run {name} "$@"
}}
_envlock_ticket={quote(f"{home}/envs/{name}/launch/ticket.sh")}
_envlock_no_gpu=${{ENVLOCK_NO_GPU:-0}}
_envlock_words=
if [ "${{1-}}" = --no-gpu ]; then
	shift
	_envlock_no_gpu=1
	_envlock_words=--no-gpu
fi
if [ "${{1-}}" = -- ]; then
	shift
	_envlock_words="$_envlock_words --"
fi
case ${{1-}} in
'' | -* | */*) ;; # nothing, an option, a path: `envlock run` looks at it
*)
	if [ -z "${{ENVLOCK_LOG-}}" ] && [ -r "$_envlock_ticket" ]; then
		# shellcheck source=/dev/null
		. "$_envlock_ticket"
	fi
	;;
esac
# shellcheck disable=SC2086 # these are words, never text of the caller
_envlock_run $_envlock_words "$@"
"""


def ticket_text(facts: Mapping[str, Any], *, project: str, home: str, vital: Sequence[str] = ()) -> str:
    """Return what the shim sources: tests of everything the verification depended on, then the composition.

    It ends in an exec, or returns to the shim. `vital` are paths below the prefix whose change must be noticed.
    """
    name, generation, prefix = facts["profile"], facts["generation"], facts["prefix"]
    environments = f"{home}/envs/{name}"
    launch = f"{environments}/launch"
    made = environ.plan_of(facts)
    tests = [
        f"[ {quote(f'{environments}/current')} -ef {quote(prefix)} ]",
        f'[ -x {quote(f"{prefix}/bin")}/"$1" ]',
        f'[ ! -d {quote(f"{prefix}/bin")}/"$1" ]',
        f"[ -r {quote(f'{prefix}/seal/lease')} ]",
        f"[ -f {quote(f'{project}/locks/{name}.toml')} ]",
        f'[ ! {quote(f"{project}/locks/{name}.toml")} -nt "$_envlock_ticket" ]',
        f'[ ! {quote(f"{project}/locks")} -nt "$_envlock_ticket" ]',
        f'[ ! {quote(facts["base_python"])} -nt "$_envlock_ticket" ]',
        f"[ -x {quote(facts['base_python'])} ]",
        # The age of this very process against the moment the last full scan stops counting.
        f'[ ! "/proc/$$" -nt {quote(f"{launch}/fresh")} ]',
        f"[ -e {quote(f'{launch}/fresh')} ]",
        *(f'[ -n "${{{reference}+set}}" ]' for reference in _references(made)),
    ]
    if facts["gpu"]:  # verify/launch_arguments.py has something to say about such words
        tests.insert(0, 'case "$*" in *-backend* | *--enable-pcie-oneshot-allreduce*) false ;; *) true ;; esac')
    lines = [
        "# shellcheck shell=sh disable=SC3013,SC2034,SC2016,SC2089,SC2090",
        "# (values of the profile may hold anything: they are quoted, exported, and never read as words)",
        f"# What `envlock run` established for {name}, generation {generation}. Safe to delete: the next launch",
        "# verifies. -nt and -ef (POSIX 2024) are in dash, bash and busybox; where they are not, the tests fail.",
        f"_envlock_ticket={quote(f'{launch}/ticket.sh')}",
        f"if {_and(tests)}",
        "then",
        *_gpu(facts, made),
        '\tif [ "$_envlock_ok" = 1 ]; then',
        *_vital(prefix, vital),
        "\tfi",
        "else",
        "\t_envlock_ok=0",
        "fi",
        'if [ "$_envlock_ok" = 1 ]; then',
        *(f"\t{line}" for line in _composition(made)),
        f'\t_envlock_item={quote(f"{prefix}/bin")}/"$1"',
        "\tshift",
        '\tset -- "$_envlock_item" "$@"',
        *_lease(prefix),
        '\texec "$@"',
        "fi",
        "",
    ]
    return "\n".join(lines)


def _and(tests: Sequence[str]) -> str:
    return " &&\n\t".join(tests)


def _gpu(facts: Mapping[str, Any], made: environ.Plan) -> list[str]:
    if not facts["gpu"]:
        return ["\t_envlock_ok=1"]
    attested, views = facts["attested"], [view for view in facts["views"] if ticket.tellable(view)]
    if not attested or not views:
        return ['\tif [ "$_envlock_no_gpu" = 0 ]; then _envlock_ok=0; else _envlock_ok=1; fi']
    return [
        "\t_envlock_ok=1",
        '\tif [ "$_envlock_no_gpu" = 0 ]; then',
        f"\t\t_envlock_view={_view(made)}",
        # Quoted patterns mean themselves. A launch that sees other GPUs than were verified is no case here.
        '\t\tcase "$_envlock_view" in',
        "\t\t" + " | ".join(quote(view) for view in views) + ") ;;",
        "\t\t*) _envlock_ok=0 ;;",
        "\t\tesac",
        *_listed(ticket.GPUS + "/*", attested["gpus"]),
        *_listed(ticket.NODES + "/nvidia[0-9]*", attested["nodes"]),
        *_listed(ticket.SLICES + "/gpu*/mig/gi*", attested["slices"]),
        f"\t\tIFS= read -r _envlock_item <{ticket.HOST}",
        f'\t\t[ "$_envlock_item" = {quote(attested["host"])} ] || _envlock_ok=0',
        "\t\tif [ -r /proc/driver/nvidia/version ]; then",
        "\t\t\tIFS= read -r _envlock_item </proc/driver/nvidia/version",
        f'\t\t\t[ "$_envlock_item" = {quote(attested["driver"])} ] || _envlock_ok=0',
        "\t\telse _envlock_ok=0; fi",
        "\t\tIFS= read -r _envlock_item </proc/sys/kernel/random/boot_id",
        f'\t\t[ "$_envlock_item" = {quote(attested["boot"])} ] || _envlock_ok=0',
        "\tfi",
    ]


def _listed(pattern: str, attested: str) -> list[str]:
    """Return the lines that compare what a pattern finds with what it found."""
    return [
        "\t\t_envlock_gpus=",
        f"\t\tfor _envlock_item in {pattern}; do",
        '\t\t\t[ ! -e "$_envlock_item" ] || _envlock_gpus="${_envlock_gpus:+$_envlock_gpus }$_envlock_item"',
        "\t\tdone",
        f'\t\t[ "$_envlock_gpus" = {quote(attested)} ] || _envlock_ok=0',
    ]


def _view(made: environ.Plan) -> str:
    """Return the word that stands for `ticket.view` of what the command's environment is going to be."""
    sets = {name: template for name, template, _ in made.sets}
    lines = []
    for name in ticket.VIEW:
        if name in sets:
            lines.append("=" + _value(sets[name], was="${{{}}}"))
        elif environ.judge(name, made.passed)[0]:
            lines.append(f'"${{{name}+=${name}}}"')
        else:
            lines.append("")
    return "'\n'".join(lines)


def _vital(prefix: str, vital: Sequence[str]) -> list[str]:
    if not vital:
        return ["\t\t:"]
    words = [f"\t\t\t{quote(path)}" for path in vital[:VITAL]]
    return [
        "\t\tfor _envlock_item in \\",
        " \\\n".join(words),
        "\t\tdo",
        f'\t\t\tif [ {quote(prefix)}/"$_envlock_item" -nt "$_envlock_ticket" ]; then',
        "\t\t\t\t_envlock_ok=0",
        "\t\t\t\tbreak",
        "\t\t\tfi",
        "\t\tdone",
    ]


def _references(made: environ.Plan) -> list[str]:
    found: dict[str, None] = {}
    for _, template, _ in made.sets:
        for is_reference, item in environ.pieces(template):
            if is_reference:
                found[item] = None
    return list(found)


def _composition(made: environ.Plan) -> list[str]:
    """Return the lines that turn the caller's environment into the child's."""
    own = {name for name, _, _ in made.sets}
    known = dict.fromkeys([*(name for name, _ in names.NAMES), *MEMBERS])
    dropped = [name for name in known if name not in own and not environ.judge(name, made.passed)[0]]
    references = _references(made)
    lines = [f"_envlock_was_{name}=${{{name}}}" for name in references]
    lines += _path(made.prefix)
    lines.append("unset " + " \\\n\t\t".join(dropped))
    for name, template, _ in made.sets:
        lines.append(f"{name}={_value(template)}")
    lines.append("export PATH " + " ".join(name for name, _, _ in made.sets))
    return lines


def _value(template: str, *, was: str = "${{_envlock_was_{}}}") -> str:
    parts = [
        f'"{was.format(item)}"' if is_reference else quote(item) for is_reference, item in environ.pieces(template)
    ]
    return "".join(parts) or "''"


def _path(prefix: str) -> list[str]:
    """Return the lines that rebuild PATH as `environ.child_path` and `command.foreign_folders` do."""
    own = quote(f"{prefix}/bin")
    return [
        f"_envlock_path={own}",
        "set -f",
        "IFS=:",
        "for _envlock_item in ${PATH-}; do",
        '\tcase ":$_envlock_path:" in *":$_envlock_item:"*) continue ;; esac',
        "\tcase $_envlock_item in",
        "\t*/shims) ;;",
        '\t/*) [ -e "$_envlock_item/../pyvenv.cfg" ] || [ -e "$_envlock_item/../conda-meta" ] ||',
        '\t\t_envlock_path="$_envlock_path:$_envlock_item" ;;',
        "\tesac",
        "done",
        "set +f",
        "unset IFS",
        "PATH=$_envlock_path",
    ]


def _lease(prefix: str) -> list[str]:
    """Return the lines that keep the lease open in a descriptor nobody uses."""
    lease = quote(f"{prefix}/seal/lease")
    lines = []
    for number in (9, 8, 7):
        word = "if" if number == 9 else "elif"
        lines += [f"\t{word} [ ! -e /proc/self/fd/{number} ]; then", f"\t\texec {number}<{lease}"]
    return [*lines, "\tfi"]
