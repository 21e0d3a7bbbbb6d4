"""The text that `eval "$(envlock activate NAME)"` takes in: it changes a running shell, and can put everything back.

Pure. The environments before and after are known where the text is made, so it holds their values and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envlock.launch import shim

OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Each shell keeps these for itself."""


def posix(
    name: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    prompt: bool,
    envlock: Sequence[str] = (),
    lease: str | None = None,
) -> str:
    """Return text for sh, dash, bash and zsh. `envlock`, if given, becomes a function: PATH no longer leads there.

    bash and zsh keep the file `lease` open while the environment is entered, so that gc knows; a plain sh has no
    descriptor that is surely free.
    """
    old, new = _changes(before, after)
    enter, leave = [], []
    for variable in sorted({*old, *new}):
        if variable not in old:
            # A variable of the shell alone, unknown to its children, is put back as such.
            enter.append(f'[ -z "${{{variable}+set}}" ] || _envlock_was_{variable}=${variable}')
            leave += [
                f"\tunset {variable}",
                f'\tif [ -n "${{_envlock_was_{variable}+set}}" ]; then',
                f"\t\t{variable}=$_envlock_was_{variable}",
                f"\t\tunset _envlock_was_{variable}",
                "\tfi",
            ]
        else:
            leave.append(f"\t{_export(variable, old[variable])}")
        enter.append(_export(variable, new[variable]) if variable in new else f"unset {variable}")
    if prompt:
        enter += ["_envlock_ps1_set=${PS1+set} _envlock_ps1=${PS1-}", f'PS1="({name}) ${{PS1-}}"']
        leave += [
            '\tif [ -n "$_envlock_ps1_set" ]; then PS1=$_envlock_ps1; else unset PS1; fi',
            "\tunset _envlock_ps1 _envlock_ps1_set",
        ]
    if lease is not None:
        keeps = 'if [ -n "${BASH_VERSION-}${ZSH_VERSION-}" ]; then eval '
        held = shim.quote(f"exec {{_envlock_lease}}<{shim.quote(lease)}")
        enter.append(f"{keeps}{held}; fi 2>/dev/null")
        leave.append(f"\t{keeps}'exec {{_envlock_lease}}<&-'; unset _envlock_lease; fi 2>/dev/null")
    if envlock:
        enter.append(f'envlock() {{ {" ".join(shim.quote(word) for word in envlock)} "$@"; }}')
        leave.append("\tunset -f envlock")
    return "\n".join(
        [
            *enter,
            "hash -r 2>/dev/null || :",
            "envlock_deactivate() {",
            *leave,
            "\thash -r 2>/dev/null || :",
            "\tunset -f envlock_deactivate",
            "}",
            "",
        ]
    )


def posix_again(words: Sequence[str]) -> str:
    """Return text that leaves the environment a shell is in, then asks for the activation anew with `words`."""
    return (
        "if command -v envlock_deactivate >/dev/null 2>&1; then envlock_deactivate; else unset ENVLOCK_ACTIVATED; fi\n"
        f'eval "$({" ".join(shim.quote(word) for word in words)})"\n'
    )


def fish(
    name: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    prompt: bool,
    envlock: Sequence[str] = (),
) -> str:
    """Return text for fish, to be piped into `source`. fish cannot keep a file open, so it holds no lease."""
    old, new = _changes(before, after)
    enter, leave = [], []
    for variable in sorted({*old, *new}):
        enter.append(_fish_set(variable, new[variable]) if variable in new else f"set -e {variable}")
        leave.append("    " + (_fish_set(variable, old[variable]) if variable in old else f"set -eg {variable}"))
    if prompt:
        enter += [
            "functions -e _envlock_prompt",
            "functions -c fish_prompt _envlock_prompt",
            f"function fish_prompt; printf '%s ' '({name})'; _envlock_prompt; end",
        ]
        leave += [
            "    functions -e fish_prompt",
            "    functions -c _envlock_prompt fish_prompt",
            "    functions -e _envlock_prompt",
        ]
    if envlock:
        enter.append(f"function envlock; {' '.join(fish_quote(word) for word in envlock)} $argv; end")
        leave.append("    functions -e envlock")
    return "\n".join([*enter, "function envlock_deactivate", *leave, "    functions -e envlock_deactivate", "end", ""])


def fish_again(words: Sequence[str]) -> str:
    """Return what `posix_again` returns, for fish."""
    return (
        "if functions -q envlock_deactivate; envlock_deactivate; else; set -e ENVLOCK_ACTIVATED; end\n"
        f"{' '.join(fish_quote(word) for word in words)} | source\n"
    )


def fish_quote(text: str) -> str:
    """Return one fish word that stands for exactly this text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _export(variable: str, value: str) -> str:
    return f"{variable}={shim.quote(value)}; export {variable}"


def _fish_set(variable: str, value: str) -> str:
    return f"set -gx {variable} {fish_quote(value)}"


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the old and the new values of the variables that differ; a missing one is absent."""
    names = [
        name
        for name in {**before, **after}
        if name.isascii() and name.isidentifier() and name not in OF_THE_SHELL and before.get(name) != after.get(name)
    ]
    return (
        {name: before[name] for name in names if name in before},
        {name: after[name] for name in names if name in after},
    )
