"""uv, behind the few verbs envlock needs. Nothing of the caller's UV_*, PIP_* or PYTHON* reaches it.

uv came first in every comparison (../docs/decisions/0001-uv.md); where it goes wrong, the callers here keep it from
harm: it only ever sees prefixes named by envlock, artifacts named by hash, and an environment composed for it.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from envlock import system
from envlock.errors import IndexFault, RealiseError, ResolutionError, ToolMissing, UsageError
from envlock.resolve.request import Request

# What uv may see of the caller: where things are, how to reach the network, how to speak to git over ssh.
_KEPT = (
    "HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
    "XDG_CONFIG_HOME", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
    "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND",
)  # fmt: skip


def binary() -> Path:
    """Return uv's executable: the one installed with envlock, else the one on PATH. Raises ToolMissing."""
    beside = [Path(sysconfig.get_path("scripts")) / "uv", Path(sys.prefix) / "bin" / "uv"]
    on_path = [Path(folder) / "uv" for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for candidate in [*beside, *on_path]:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return candidate
    raise ToolMissing("uv is not installed beside envlock", hint="python -m pip install 'uv>=0.13.9,<0.14'")


def version() -> str:
    """Return uv's version, `0.13.9`, read from its metadata without starting it when it came with envlock."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("uv")
    except PackageNotFoundError:
        words = system.run([binary(), "--version"], env=environment(os.environ)).stdout.split()
        return words[1] if len(words) > 1 else "unknown"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment uv runs in."""
    kept = {name: environ[name] for name in _KEPT if name in environ}
    cache = environ.get("ENVLOCK_UV_CACHE_DIR") or environ.get("UV_CACHE_DIR")
    if cache:
        kept["UV_CACHE_DIR"] = cache  # where the cache lies moves no version and no prefix
    limit = http_timeout(environ)
    if limit is not None:
        kept["UV_HTTP_TIMEOUT"] = f"{limit:g}"
    return kept


def http_timeout(environ: Mapping[str, str]) -> float | None:
    """Return ENVLOCK_HTTP_TIMEOUT, the seconds that an index may be silent; None for uv's and envlock's own choice.

    Raises UsageError when it is no such number.
    """
    told = environ.get("ENVLOCK_HTTP_TIMEOUT", "")
    if not told:
        return None
    try:
        limit = float(told)
    except ValueError:
        limit = 0.0
    if not 1 <= limit <= 86400:
        raise UsageError(
            "ENVLOCK_HTTP_TIMEOUT is no time limit", expected="seconds, from 1 to 86400", found=told, hint="unset it"
        )
    return limit


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of uv's cache."""
    done = system.run([binary(), "cache", "dir", "--no-config"], env=environment(environ))
    return Path(done.stdout.strip())


def compile_request(
    request: Request,
    folder: Path,
    *,
    environ: Mapping[str, str],
    pylock: bool,
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    on_said: Callable[[str], None] = lambda _: None,
) -> str:
    """Resolve a request in `folder` (its files are written there) and return uv's answer as text.

    `on_said` gets what uv remarked besides.
    Raises ResolutionError with uv's explanation, IndexFault when an index could not be read.
    """
    for name, text in request.files.items():
        folder.joinpath(name).write_text(text)
    output = folder / ("pylock.toml" if pylock else "pins.txt")
    if pylock:
        pins = [line.strip().split("==") for line in request.files["pins.txt"].splitlines()]
        tables = "".join(f'\n[[packages]]\nname = "{name}"\nversion = "{held}"\n' for name, held in pins)
        tables = tables or "packages = []\n"  # a lock of direct references alone
        output.write_text(f'lock-version = "1.0"\ncreated-by = "envlock"\n{tables}')
    argv: list[str | os.PathLike[str]] = [
        binary(), "pip", "compile", "pyproject.toml", "--python", sys.executable,
        "--output-file", output.name, *request.options,
    ]  # fmt: skip
    argv += _configured(folder / "uv.toml")
    argv += ["--format", "pylock.toml"] if pylock else ["--emit-index-annotation", "--annotation-style", "split"]
    for option, file in (("-c", "constraints.txt"), ("--overrides", "overrides.txt"), ("--excludes", "excludes.txt")):
        if request.files.get(file):
            argv += [option, file]
    if upgrade:
        argv.append("--upgrade")
    for name in upgrade_packages:
        argv += ["--upgrade-package", name]
    done = system.run(argv, env=environment(environ), cwd=folder)
    if done.returncode != 0:
        raise explained(done.stderr)
    on_said(done.stderr)
    return output.read_text()


# uv's words for "the index is the trouble", not the requirements; read from its sources' error types.
_INDEX_TROUBLE = re.compile(
    r"Failed to fetch|error sending request|HTTP status|Request failed|timed out|Could not connect|dns error"
    r"|Failed to download|Failed to read metadata|Failed to extract|Hash mismatch|Failed to parse metadata"
    r"|IncompleteMessage|connection closed|unexpected EOF|end of file",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^(warning:|Using |Resolved |DEBUG|hint: The `--)")


def shortened(stderr: str, limit: int = 24) -> list[str]:
    """Return the lines of uv's explanation that matter, in their order."""
    lines = [line.rstrip() for line in stderr.splitlines()]
    lines = [re.sub(r"^\s*(\u00d7|╰─▶|├─▶|│)\s?", "  ", line) for line in lines if line.strip()]
    lines = [line.replace("envlock-request", "this profile") for line in lines if not _NOISE.match(line.strip())]
    return lines[:limit] + ([f"... and {len(lines) - limit} more lines"] if len(lines) > limit else [])


def explained(stderr: str) -> ResolutionError | IndexFault:
    """Return uv's failure to resolve as an error of ours."""
    details = shortened(stderr)
    if "No solution found" not in stderr and _INDEX_TROUBLE.search(stderr):
        silent = "timed out" in stderr.lower() or "timeout" in stderr.lower()
        return IndexFault(
            "an index was silent for too long" if silent else "an index could not be read",
            found=_cause(stderr),
            hint="allow it more time with ENVLOCK_HTTP_TIMEOUT=SECONDS, or map it to a nearer mirror with "
            "ENVLOCK_INDEX_<NAME>_URL"
            if silent
            else "check the network, or map the index to a mirror with ENVLOCK_INDEX_<NAME>_URL; then run this again",
            details=details,
        )
    return ResolutionError("the requirements cannot be met together", details=details)


def _cause(stderr: str) -> str:
    causes = [line.strip() for line in stderr.splitlines() if _INDEX_TROUBLE.search(line)]
    return causes[-1] if causes else stderr.strip().splitlines()[-1]


def default_index(environ: Mapping[str, str]) -> str | None:
    """Return the URL of the index that uv asks when none is named; nothing is asked for it."""
    argv: list[str | os.PathLike[str]] = [
        binary(), "pip", "compile", "-", "--no-config", "--offline", "--no-header", "--emit-index-url",
        "--python", sys.executable,
    ]  # fmt: skip
    done = system.run(argv, env=environment(environ), input_text="")
    match = re.search(r"^--index-url (\S+)$", done.stdout, re.MULTILINE)
    return match[1] if match else None


def audit(folder: Path, *, environ: Mapping[str, str], service_url: str | None) -> system.Completed:
    """Ask an advisory service about the packages of the uv.lock in a folder; the answer is JSON.

    Exit status 1: something is known. `service_url` None means uv's own choice. The result is returned whatever it is.
    """
    argv: list[str | os.PathLike[str]] = [
        binary(), "audit", "--no-config", "--frozen", "--preview-features", "audit-command,json-output",
        "--output-format", "json", "--no-python-downloads", "--no-progress", "--color", "never",
    ]  # fmt: skip
    if service_url is not None:
        argv += ["--service-url", service_url]
    # Two tries instead of four: who waits for a service that is not reachable should hear so in seconds.
    return system.run(argv, env={**environment(environ), "UV_HTTP_RETRIES": "1"}, cwd=folder)


def make_venv(prefix: Path, python: Path, *, environ: Mapping[str, str]) -> None:
    """Make an empty venv at its final path. Raises RealiseError."""
    argv: list[str | os.PathLike[str]] = [
        binary(),
        "venv",
        "--no-config",
        "--no-project",
        "--quiet",
        "--python",
        python,
        "--no-python-downloads",
        prefix,
    ]
    done = system.run(argv, env=environment(environ))
    if done.returncode != 0:
        raise RealiseError(
            "the virtual environment could not be made", where=str(prefix), details=shortened(done.stderr)
        )


def install(
    prefix: Path,
    requirements: Path,
    *,
    environ: Mapping[str, str],
    index_url: str | None,
    offline: bool,
    link_mode: str,
    require_hashes: bool = True,
    config: Path | None = None,
    no_build_isolation: Sequence[str] = (),
    reinstall: Sequence[str] = (),
    refresh: Sequence[str] = (),
    on_line: Callable[[str], None] | None = None,
) -> system.Completed:
    """Install exactly the listed artifacts into a prefix envlock made; nothing else is resolved or touched.

    `index_url` None means uv's default index; `config` says how packages are built. The result is returned whatever it
    is: the caller knows what to try next.
    """
    argv: list[str | os.PathLike[str]] = [
        binary(), "pip", "install", "--python", prefix / "bin" / "python", "--no-python-downloads",
        "--no-deps", "--link-mode", link_mode, "--color", "never", "-r", requirements,
    ]  # fmt: skip
    argv += _configured(config)
    if require_hashes:
        argv.append("--require-hashes")
    if index_url is not None:
        argv += ["--default-index", index_url]
    if offline:
        argv.append("--offline")
    for name in no_build_isolation:
        argv += ["--no-build-isolation-package", name]
    for name in reinstall:
        argv += ["--reinstall-package", name]
    for name in refresh:
        argv += ["--refresh-package", name]
    return system.run(argv, env=environment(environ), on_stderr_line=on_line)


def _configured(config: Path | None) -> list[str]:
    """Return the words that make uv read this configuration and no other."""
    if config is None or not config.is_file() or not config.stat().st_size:
        return ["--no-config"]
    return ["--config-file", str(config)]


def clean_cache(names: Sequence[str], *, environ: Mapping[str, str]) -> None:
    """Drop packages from uv's cache, so that what was damaged there is fetched anew."""
    system.run([binary(), "cache", "clean", "--no-config", "--force", *names], env=environment(environ))
