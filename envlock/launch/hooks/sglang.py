"""SGLang's server, with its arguments judged before it starts."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header, words


def files(target: Target) -> tuple[File, ...]:
    """Return a script that takes what the server takes. It goes through `envlock run`, which judges the arguments."""
    flags = ("--no-gpu",) if target.no_gpu else ()
    run = words((*target.envlock, "run", *flags, target.name, "--"))
    moved = f"ENVLOCK_HOME={words((target.home,))}\nexport ENVLOCK_HOME\n" if target.moved else ""
    text = f"""#!/bin/sh
{header(target, "sglang").rstrip()}
# Arguments that name a backend without code for the GPU are told before anything is loaded (refused,
# with [kernels] lint = "error" in the profile):
#   {target.name}-sglang --model-path MODEL --port 30000
# `serve MODEL ...` goes to the `sglang` command; everything else to sglang.launch_server.
{moved}case ${{1-}} in
serve) exec {run} sglang "$@" ;;
esac
exec {run} python -m sglang.launch_server "$@"
"""
    return (File(path=f"{target.name}-sglang", text=text, executable=True),)


KIND = Kind(
    name="sglang",
    purpose="SGLang's server, its arguments judged before it starts",
    files=files,
    after="{path} --model-path MODEL",
    needs="sglang",
)
