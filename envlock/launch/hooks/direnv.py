"""direnv: enter the folder, have the environment; leave it, and every variable is as before."""

from __future__ import annotations

from envlock.launch.hooks.kind import File, Kind, Target, header, words


def files(target: Target) -> tuple[File, ...]:
    """Return the .envrc."""
    flags = ("--no-gpu",) if target.no_gpu else ()
    activate = words((*target.envlock, "activate", "--shell", "bash", "--no-prompt", *flags, target.name))
    moved = f"export ENVLOCK_HOME={words((target.home,))}\n" if target.moved else ""
    watched = words((f"{target.project}/locks/{target.name}.toml", f"{target.home}/envs/{target.name}/history.jsonl"))
    text = f"""{header(target, "direnv")}# Looked at again after each lock and each sync.
watch_file {watched}
{moved}# direnv itself puts everything back on leaving.
if envlock_text=$({activate}); then
	eval "$envlock_text"
	unset envlock_text
	unset -f envlock_deactivate
else
	log_error "envlock: the environment of {target.name} was not entered"
	exit 1
fi
"""
    return (File(path=".envrc", text=text),)


KIND = Kind(
    name="direnv",
    purpose="an .envrc: the verified environment while you are in the folder",
    files=files,
    after="direnv allow {folder}",
)
