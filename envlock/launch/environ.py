"""The composition of a child's environment: what crosses from the caller, what is dropped, what is set, and why.

Pure, and standard library only: the fast path of `envlock run` imports it. The same `Plan` is rendered as shell text
for the shim, so both ways compose alike. The rule, in one sentence: what decides which code is loaded, compiled or
installed is dropped unless the profile's `pass` names it; everything else crosses; what the profile sets, wins.
"""

from __future__ import annotations

from envlock.launch import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

# torch 2.9.1 ignores PYTORCH_ALLOC_CONF for CUDA (pytorch/pytorch#183387; the same was seen on 2.11); from 2.8 to 2.11
# the old name works and warns that it is deprecated. The new name is trusted from 2.12 on.
OLD_ALLOCATOR, NEW_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
NEW_ALLOCATOR_SINCE = (2, 12)


class UndefinedReference(ValueError):
    """A declared value refers to a variable that the caller does not have."""

    def __init__(self, name: str, reference: str) -> None:
        super().__init__(f"env.set.{name} refers to ${{{reference}}}, which is not set")
        self.name = name
        self.reference = reference


class Step:
    """What became of one variable."""

    __slots__ = ("action", "name", "value", "why")

    def __init__(self, name: str, action: str, value: str, why: str) -> None:
        self.name = name
        self.action = action
        """`kept`, `dropped`, `set` or `rebuilt`."""
        self.value = value
        self.why = why


class Composition:
    """A child's environment, and how it came about."""

    __slots__ = ("env", "steps")

    def __init__(self, env: dict[str, str], steps: tuple[Step, ...]) -> None:
        self.env = env
        self.steps = steps


class Plan:
    """What will be done to any caller's environment: the half of a composition that needs no caller."""

    __slots__ = ("passed", "prefix", "sets")

    def __init__(self, prefix: str, passed: tuple[str, ...], sets: tuple[tuple[str, str, str], ...]) -> None:
        self.prefix = prefix
        self.passed = passed
        self.sets = sets
        """(name, value with `${NAME}` references, why), in the order they are set; each name once."""


def plan(
    declared: Mapping[str, object],
    *,
    profile: str,
    generation: str,
    prefix: str,
    torch: str | None,
    digest: str,
    cache_root: str,
    verdict: str,
) -> Plan:
    """Return what a launch does to the environment. `declared` is the `env` table of the seal's `declared`."""
    passed = tuple(str(item) for item in _list(declared.get("pass")))
    chosen: dict[str, tuple[str, str]] = {
        "PYTHONNOUSERSITE": ("1", "packages under ~/.local stay out"),
        "PYTHONDONTWRITEBYTECODE": ("1", "nothing is written into a sealed environment"),
    }
    folder = literal(f"{cache_root}/{profile}/{cache_key(generation, torch)}")
    for name, below in names.CACHES:
        chosen[name] = (f"{folder}/{below}", "one cache a build: stale kernels cannot cross")
    for name, value in _table(declared.get("set")).items():
        honoured = allocator_name(name, torch)
        if honoured != name:
            if honoured in _table(declared.get("set")):
                continue
            chosen[honoured] = (value, f"set by the profile as {name}; torch {torch} honours this name")
        else:
            chosen[name] = (value, "set by the profile")
    chosen |= {
        "VIRTUAL_ENV": (literal(prefix), "the sealed environment"),
        "PYTHON_EXEC": (literal(f"{prefix}/bin/python"), "torchrun starts every rank with it"),
        "ENVLOCK_PROFILE": (literal(profile), "told to the guard"),
        "ENVLOCK_GENERATION": (literal(generation), "told to the guard"),
        "ENVLOCK_PREFIX": (literal(prefix), "told to the guard"),
        "ENVLOCK_DIGEST": (literal(digest), "told to the guard"),
        "ENVLOCK_VERDICT": (literal(verdict), "told to the guard"),
    }
    return Plan(prefix, passed, tuple((name, value, why) for name, (value, why) in chosen.items()))


def plan_of(facts: Mapping[str, Any]) -> Plan:
    """Return what a launch under a ticket's facts does to any environment."""
    return plan(
        facts["env"],
        profile=facts["profile"],
        generation=facts["generation"],
        prefix=facts["prefix"],
        torch=facts["torch"],
        digest=facts["digest"],
        cache_root=facts["cache_root"],
        verdict="pass",
    )


def apply(
    made: Plan,
    caller: Mapping[str, str],
    *,
    foreign: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> Composition:
    """Return the child's environment. `foreign` are folders of PATH that belong to other environments.

    `extra` (from --profile-env, --gpus) is taken as it is and wins over the profile. Raises UndefinedReference.
    """
    env: dict[str, str] = {}
    steps: list[Step] = []
    own = {name for name, _, _ in made.sets}
    for name in sorted(caller):
        value = caller[name]
        if name == "PATH" or name in own or (extra and name in extra):
            continue
        keep, why = judge(name, made.passed)
        if keep:
            env[name] = value
        steps.append(Step(name, "kept" if keep else "dropped", value, why))
    env["PATH"] = child_path(caller.get("PATH", ""), made.prefix, foreign)
    steps.append(Step("PATH", "rebuilt", env["PATH"], "the environment first; other environments' folders left out"))
    for name, template, why in made.sets:
        value = expand(name, template, caller)
        env[name] = value
        before = caller.get(name)
        replaced = f"; the caller's {before!r} is replaced" if before not in (None, value) else ""
        steps.append(Step(name, "set", value, why + replaced))
    for name, value in (extra or {}).items():
        env[name] = value
        steps.append(Step(name, "set", value, "given for this launch"))
    return Composition(env, tuple(steps))


def judge(name: str, passed: Sequence[str]) -> tuple[bool, str]:
    """Tell whether a variable of the caller crosses, and why."""
    if not _is_identifier(name):
        return False, "no shell can carry this name"
    exact = name in passed
    pattern = next((item for item in passed if names.matches(name, item)), None)
    if exact or (pattern is not None and name not in names.LOADERS):
        return True, f"the profile passes {pattern}"
    if name in names.HARMLESS:
        return True, "changes how Python runs, not what it loads"
    danger = _danger(name)
    if danger is not None:
        hint = " (a glob does not pass it: name it in `pass`)" if pattern is not None else ""
        return False, danger + hint
    for known, why in names.FAMILIAR:
        if names.matches(name, known):
            return True, why
    return True, "steers nothing that envlock knows of"


def _danger(name: str) -> str | None:
    for known, why in names.NAMES:
        if name == known:
            return why
    for pattern, why in names.FAMILIES:
        if names.matches(name, pattern):
            return why
    return None


def child_path(path: str, prefix: str, foreign: Iterable[str]) -> str:
    """Return PATH with the environment's programs first, without relative folders and without `foreign` ones."""
    out = set(foreign) | {f"{prefix}/bin"}
    kept = [f"{prefix}/bin"]
    for folder in path.split(":"):
        if folder.startswith("/") and folder not in out and not folder.endswith("/shims"):
            kept.append(folder)
            out.add(folder)
    return ":".join(kept)


def expand(name: str, template: str, caller: Mapping[str, str]) -> str:
    """Return a value with `${NAME}` replaced by the caller's variable; `$$` stands for a dollar sign. No shell.

    Raises UndefinedReference.
    """
    if "$" not in template:
        return template
    out = ""
    for is_reference, text in pieces(template):
        if not is_reference:
            out += text
        elif text in caller:
            out += caller[text]
        else:
            raise UndefinedReference(name, text)
    return out


def pieces(template: str) -> list[tuple[bool, str]]:
    """Split a value into (is a reference, text or name). A `$` that begins no `${NAME}` stands for itself."""
    found: list[tuple[bool, str]] = []
    text, at = "", 0
    while at < len(template):
        if template.startswith("$$", at):
            text, at = text + "$", at + 2
            continue
        if template.startswith("${", at):
            end = template.find("}", at)
            name = template[at + 2 : end] if end > 0 else ""
            if _is_identifier(name):
                if text:
                    found.append((False, text))
                found.append((True, name))
                text, at = "", end + 1
                continue
        text, at = text + template[at], at + 1
    if text:
        found.append((False, text))
    return found


def literal(value: str) -> str:
    """Return a value written so that `expand` gives it back unchanged."""
    return value.replace("$", "$$") if "$" in value else value


def allocator_name(name: str, torch: str | None) -> str:
    """Return the name under which this torch honours an allocator setting; other names are returned as they are."""
    if name not in (OLD_ALLOCATOR, NEW_ALLOCATOR) or torch is None:
        return name
    numbers = torch.split("+", 1)[0].split(".")
    try:
        version = (int(numbers[0]), int(numbers[1]))
    except (ValueError, IndexError):
        return name
    return NEW_ALLOCATOR if version >= NEW_ALLOCATOR_SINCE else OLD_ALLOCATOR


def cache_key(generation: str, torch: str | None) -> str:
    """Return the folder that artefacts compiled at run time go to: one for each lock and torch build."""
    lock = generation.rpartition("-")[2]
    return f"{lock}-torch-{torch.replace('+', '-')}" if torch else lock


def _is_identifier(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _list(item: object) -> list[object]:
    return item if isinstance(item, list) else []


def _table(item: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in item.items()} if isinstance(item, dict) else {}
