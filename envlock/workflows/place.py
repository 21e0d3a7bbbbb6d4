"""`--in NAME`: the same command, in a container. What it needs is pushed first, then envlock runs there."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from envlock import disk
from envlock.container.bundle import bundle, tool_digest
from envlock.container.declaration import TOOL, Container
from envlock.container.engine import Engine
from envlock.container.inside import CERTIFICATES, TOOL_COMMAND, environment
from envlock.declare.files import load_profile, profile_names
from envlock.errors import ContainerError, ProfileError, TransportError, UsageError
from envlock.layout import Layout
from envlock.resolve.indexes import variable
from envlock.workflows.container import cache_folder, index_urls, open_container

HERE = "here"
"""`--in here`: not in the container that the profile names."""
_WITH_VALUE = ("-C", "--project")
# $1 tool, $2 certificates: what is there now.
_LOOK = (
    'readlink "$1" || echo; if [ -f "$2" ]; then sha256sum <"$2" | cut -d " " -f 1; else echo; fi; uname -m; '
    "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])' || echo"
)


def split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take `--in NAME` (and -C, which is of this machine) out of a command line; nothing after `--` is touched.

    Raises UsageError when the name is missing.
    """
    place: str | None = None
    kept: list[str] = []
    rest = iter(words)  # -C belongs to envlock itself only before the command's name
    for word in rest:
        if word == "--":
            return place, [*kept, word, *rest]
        if word == "--in" or (word in _WITH_VALUE and not kept):
            value = next(rest, None)
            if value is None or value == "--":
                raise UsageError(f"{word} needs a value", hint="envlock run PROFILE --in NAME -- ...")
            place = value if word == "--in" else place
        elif word.startswith("--in="):
            place = word.removeprefix("--in=")
        elif kept or not word.startswith("--project="):
            kept.append(word)
    return place, kept


def inside_of() -> str | None:
    """Return the name of the container this envlock runs in, or None."""
    return os.environ.get("ENVLOCK_INSIDE") or None


def forward(
    layout: Layout,
    name: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    pass_: Sequence[str] = (),
    made: Sequence[str] = (),
) -> int:
    """Run `envlock WORDS` in the declared container `name` and return its exit status.

    Profiles, locks and envlock itself are brought there first, when they are not there yet. Of `environ` only the
    names matching `pass_`, proxies and the URLs of indexes go along, in a file that no process table shows. `made` are
    files of the project that the command makes; where the project is only a copy inside, they are brought back.
    Raises TransportError naming the hop that failed.
    """
    engine = open_container(layout, name)
    container = engine.container
    certificates = _certificates(environ)
    _bring(layout, engine, certificates)
    secret = _crossing(layout, environ, pass_)
    shown = {key: environ[key] for key in ("NO_COLOR", "COLUMNS", "ENVLOCK_DEBUG") if key in environ}
    if certificates is not None and words[:1] != ["run"]:  # a launch's own variables are its profile's business
        shown["SSL_CERT_FILE"] = CERTIFICATES
    code = engine.inside.call(
        (TOOL_COMMAND, *words),
        cwd=_folder(layout, container),
        env={**environment(container), **shown, "ENVLOCK_FORWARDED": name},
        secret=secret,
    )
    if code == 0 and container.mount("project") is None:
        for path in made:
            _bring_back(layout, engine, path)
    return code


def _bring_back(layout: Layout, engine: Engine, path: str) -> None:
    there = f"{engine.container.paths.project}/{path}"
    told = engine.inside.run(("cat", there), timeout=60)
    if told.returncode != 0:
        raise TransportError(f"{path} could not be brought back", where=there, details=told.stderr.splitlines())
    disk.write_atomically(layout.project / path, told.stdout)


def _crossing(layout: Layout, environ: Mapping[str, str], pass_: Sequence[str]) -> dict[str, str]:
    """Return what goes along: URLs of the indexes as this machine maps them, proxies, and what is passed."""
    patterns = (*pass_, "ENVLOCK_INDEX_*", "*_proxy", "*_PROXY")
    crossing = {k: v for k, v in environ.items() if any(fnmatch.fnmatchcase(k, pattern) for pattern in patterns)}
    for name in profile_names(layout):
        try:
            urls = index_urls(load_profile(layout, name), environ)
        except ProfileError:
            continue  # the command inside will say what is wrong with it, if it is asked for
        crossing |= {variable(index): url for index, url in urls.items()}
    return crossing


def _certificates(environ: Mapping[str, str]) -> str | None:
    """Return the text of the certificates the caller trusts in place of the system's, if there are any."""
    try:
        return Path(environ["SSL_CERT_FILE"]).read_text(encoding="utf-8", errors="replace")
    except (KeyError, OSError):
        return None


def _folder(layout: Layout, container: Container) -> str:
    """Return where the command starts: the caller's own folder where the project is mounted, else /root."""
    mount = container.mount("project")
    here = Path.cwd()
    project = layout.project.resolve()
    if mount is None or not here.is_relative_to(project):
        return "/root" if mount is None else mount.target
    return str(Path(mount.target) / here.relative_to(project))


def _bring(layout: Layout, engine: Engine, certificates: str | None) -> None:
    container = engine.container
    looked = engine.inside.run(("sh", "-c", _LOOK, "sh", TOOL, CERTIFICATES), timeout=60)
    if looked.returncode != 0:
        raise TransportError("looking inside failed", where=str(engine.inside), details=looked.stderr.splitlines())
    tool, trusted, machine, python = looked.stdout.split("\n")[:4]
    if certificates is not None and trusted != hashlib.sha256(certificates.encode()).hexdigest():
        engine.inside.write(CERTIFICATES, certificates)
    if tool != f".envlock.{tool_digest()}":
        if not python:
            raise ContainerError(
                f"{container.name} has no python3",
                where=str(engine.inside),
                hint=f'packages = ["python3"] in container/{container.name}.toml, then envlock container create',
            )
        engine.inside.push(bundle(cache_folder(), python, machine), TOOL, digest=tool_digest())
    if container.mount("project") is None:
        with tempfile.TemporaryDirectory(prefix="envlock-project-") as staging:
            for folder in (layout.profiles, layout.locks, layout.containers):
                if folder.is_dir():
                    shutil.copytree(folder, Path(staging) / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
            engine.inside.push(Path(staging), container.paths.project)
