"""Stop a program that does not run in the sealed environment it was written for.

    import envlock_guard
    envlock_guard.require("train-cu128")

as the first lines of a script; `python -m envlock_guard train-cu128 script.py ARGS` for a script that cannot be edited.
It costs less than a millisecond and imports nothing but os and sys. Installed into every environment by envlock.
"""

import os
import sys

_CHECKED = 10  # stamp lines compared at each start: the interpreter, the folders packages lie in, torch

__all__ = ["require"]


def require(profile, *, agree=False):
    """Return when this process runs in the sealed, current, unchanged environment of `profile`, verified at launch.

    Else explain on stderr and exit with 125. With `agree`, inside an initialised torch.distributed process group, all
    ranks compare their environments as well, and the odd one out is named.
    """
    fault = _fault(profile)
    if agree:
        fault = _agree(fault)
    if fault is not None:
        _stop(profile, fault)


def _fault(profile):
    """Return (what is wrong, expected, found, what to do), or None."""
    prefix = _prefix()
    start = f"envlock run {profile} -- python {_script()}"
    sealed = _sealed(prefix)
    if sealed is None:
        return ("this Python is not an environment of envlock", f"profile {profile}", sys.executable, start)
    if sealed.get("profile") != profile:
        return ("this is the environment of another profile", profile, f"{sealed.get('profile')} ({prefix})", start)
    generation = os.path.basename(prefix)
    try:
        current = os.readlink(os.path.join(os.path.dirname(prefix), "current"))
    except OSError:
        current = "none"
    if prefix != sealed.get("prefix") and prefix != os.path.realpath(sealed.get("prefix", "")):
        return (
            "the environment was moved since it was sealed",
            sealed.get("prefix"),
            prefix,
            f"envlock sync {profile}",
        )
    if current != generation and os.environ.get("ENVLOCK_GENERATION") != generation:
        return ("this generation is no longer the current one", current, generation, start)
    changed = _drifted(prefix)
    if changed is not None:
        mend = f"envlock verify {profile} tells what; envlock sync --rebuild {profile} mends it"
        return ("the environment has drifted from its seal", f"generation {generation} as sealed", changed, mend)
    verdict = os.environ.get("ENVLOCK_VERDICT")
    if verdict != "pass" or os.environ.get("ENVLOCK_GENERATION") != generation:
        found = "started directly, not through envlock" if verdict is None else f"verdict {verdict!r} of another launch"
        return (
            "this process was not verified when it was launched",
            "a launch by envlock run or the shim",
            found,
            start,
        )
    torch = sys.modules.get("torch")
    if torch is not None:
        cuda = getattr(getattr(torch, "version", None), "cuda", None) or ""
        if cuda != sealed.get("cuda", ""):
            where = getattr(torch, "__file__", "?")
            found = f"CUDA {cuda or 'none'} ({where})"
            return ("torch is already imported, of another build", f"CUDA {sealed.get('cuda') or 'none'}", found, start)
    return None


def _prefix():
    """Return the generation's own folder, also when this Python was called through `current`."""
    prefix = sys.prefix
    return prefix if prefix == os.environ.get("ENVLOCK_PREFIX") else os.path.realpath(prefix)


def _script():
    return " ".join(sys.argv) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "..."


def _sealed(prefix):
    """Return what `seal/guard` holds, or None."""
    try:
        with open(f"{prefix}/seal/guard", "rb") as file:
            text = file.read().decode("utf-8", "surrogateescape")
    except OSError:
        return None
    return dict(line.split(" ", 1) for line in text.split("\n") if " " in line)


def _drifted(prefix):
    """Return the first of the weightiest paths that is not as stamped, or None."""
    try:
        with open(f"{prefix}/seal/stamp", "rb") as file:
            lines = file.read(8192).decode("utf-8", "surrogateescape").split("\n")[:-1]
        for line in lines[1 : _CHECKED + 1]:
            mtime, size, path = line.split(" ", 2)
            status = os.lstat(f"{prefix}/{path}")
            if status.st_mtime_ns != int(mtime) or (size != "-" and status.st_size != int(size)):
                return f"{path} changed"
    except (OSError, ValueError) as error:
        return f"{error}"
    return None


def _agree(fault):
    """Return this rank's fault, or what all ranks together found: every rank gets to know, none waits for ever."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return fault or (
            "agree=True needs an initialised process group",
            "torch.distributed.init_process_group(...) before require(..., agree=True)",
            "none",
            "call it before, or leave agree out",
        )
    sealed = _sealed(_prefix()) or {}
    mine = (sealed.get("digest", "none"), os.uname().nodename, _prefix(), None if fault is None else fault[0])
    everyone: list[tuple[str, str, str, str | None]] = [mine] * distributed.get_world_size()
    distributed.all_gather_object(everyone, mine)
    if fault is not None:
        return fault
    counts: dict[str, int] = {}
    for digest, _, _, _ in everyone:
        counts[digest] = counts.get(digest, 0) + 1
    most = max(counts, key=lambda digest: (counts[digest], digest == mine[0]))
    told = [
        f"rank {rank} on {host}: environment {digest[:12]} ({prefix})" + (f": {why}" if why else "")
        for rank, (digest, host, prefix, why) in enumerate(everyone)
        if digest != most or why
    ]
    if not told:
        return None
    return (
        "the ranks do not run in one and the same environment",
        f"{counts[most]} of {len(everyone)} ranks: environment {most[:12]}",
        "; ".join(told[:8]),
        "envlock sync on the nodes named, from the same lock; envlock status shows both",
    )


def _stop(profile, fault):
    what, expected, found, remedy = fault
    rank = os.environ.get("RANK")
    sys.stdout.flush()
    sys.stderr.write(
        f"\nenvlock: {what}{f' (rank {rank})' if rank else ''}\n"
        f"  profile:   {profile}\n"
        f"  expected:  {expected}\n"
        f"  found:     {found}\n"
        f"  python:    {sys.executable}\n"
        f"  try:       {remedy}\n\n"
    )
    sys.stderr.flush()
    raise SystemExit(125)


def _main(words):
    if len(words) < 2 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m envlock_guard PROFILE SCRIPT [ARGS...]\n")
        sys.stderr.write("       python -m envlock_guard PROFILE -m MODULE [ARGS...]\n")
        raise SystemExit(2)
    profile, script, rest = words[0], words[1], words[2:]
    sys.argv = [script, *rest]
    require(profile)
    import runpy

    if script == "-m":
        if not rest:
            sys.stderr.write("envlock_guard: -m needs a module\n")
            raise SystemExit(2)
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(script):
        sys.stderr.write(f"envlock_guard: {script}: no such file\n")
        raise SystemExit(2)
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _main(sys.argv[1:])
