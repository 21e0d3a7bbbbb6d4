"""Write docs/reference.md and docs/checks.md from the code: `make docs`. A test holds the committed pages to the code."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from envlock import errors
from envlock.cli.main import cli_group
from envlock.verify.explain import TEXTS

FOLDER = Path(__file__).parent

_VARIABLES = """
| variable | what it does |
|---|---|
| `ENVLOCK_PROJECT` | the folder that holds profiles/ and locks/ (else: the working folder, or one above it) |
| `ENVLOCK_HOME` | the store, instead of `.envlock` in the project |
| `ENVLOCK_INDEX_<NAME>_URL` | where a logical index is on this machine, credentials included; `ENVLOCK_INDEX_PYPI_URL` for the default one |
| `ENVLOCK_ADVISORIES_URL` | the service that `audit` asks for vulnerabilities, if not uv's own; it must speak OSV |
| `ENVLOCK_PYTHON_3_11` | the interpreter to build on for that Python version |
| `ENVLOCK_HTTP_TIMEOUT` | seconds that an index may be silent (uv's own: 30; envlock's: 60) |
| `ENVLOCK_UV_CACHE_DIR` | uv's cache (`UV_CACHE_DIR` is honoured, too; no other `UV_*` reaches uv) |
| `NO_COLOR` | not empty: no colours, on a terminal either |
| `ENVLOCK_NO_GPU` | `1`: launch without a GPU, as `--no-gpu` |
| `ENVLOCK_LOG` | a file for one JSON line a launch, as `run --log` |

Set for a launched process: `ENVLOCK_PROFILE`, `ENVLOCK_GENERATION`, `ENVLOCK_PREFIX`, `ENVLOCK_VERDICT`; see
[environment-variables.md](environment-variables.md) for everything that is kept, dropped and set.
User configuration, `~/.config/envlock/config.toml`: `[index]` with `name = "URL"` lines.
"""

_JSON = """
| command | keys |
|---|---|
| `verify --json` | `profile`, `generation`, `ok`, `checks`: `id`, `tier`, `status` (`pass`, `warn`, `fail`, `skip`), `expected`, `found`, `where`, `remedy` |
| `diff --json` | `from`, `to`, `headline`, `packages`: `name`, `change` (`added`, `removed`, `changed`), `from`, `to`, `size_from`, `size_to`, `installed_from`, `installed_to` (bytes; null: not known); `download`: `from`, `to`; `installed`: `from`, `to`: `bytes`, `unknown_packages`; `torch`: `from`, `to`; `inputs`; `findings`: `id`, `severity`, `text`, `why`, `avoid`, `packages`. Several locks: `{"diffs": [...]}` |
| `status --json` | `profiles`: `name`, `locked` (`fresh`, `stale`, `missing`, `broken`), `synced` (`current`, `stale`, `missing`, `drifted`), `generation`, `torch`, `cuda`, `python`, `bytes`, `generations`, `notes`, `remedy` |
| `lock --json` | `profiles`: `name`, `changed`, `reasons`, `moves`, `yanked`: `name`, `version`, `reason`; `error`; with `--check`: `name`, `locked`, `reasons` |
| `audit --json` | `complete`; `profiles`: `name`, `packages`, `complete`, `vulnerabilities` (null: not asked): `id`, `aliases`, `package`, `version`, `fixed`, `summary`, `link`; `files`: `id`, `severity`, `package`, `text`; `not_audited`: `what`, `reason`, `packages`; `notes` |
| `sync --json` | `profiles`: `name`, `generation`, `built`, `environment_digest`, `torch`, `cuda`, `bytes`, `links`, `error` |
| `history --json` | `profile`, `generations`: `generation`, `current`, `pinned`, `time`, `lock_digest`, `commit`, `user`, `change`, `launches`, `last_use`, `present` |
| `gc --json` | `removed`, `kept`: `generation`, `reason`; `leftovers`, `apparent`, `freed` (bytes) |
| `why --json` | `profile`, `package`, `version`, `paths`, `held_by`, `moved_by` |

An error under `--json` is one object: `error`, `message`, `where`, `expected`, `found`, `hint`, `details`, `exit_code`.
Keys are added, never renamed or removed, within a major version.
"""


def reference() -> str:
    """Return the reference of commands, exit codes, JSON keys and environment variables."""
    parts = ["# Reference\n\nWritten by `make docs` from the code; do not edit.\n\n## Commands\n"]
    context = click.Context(cli_group, info_name="envlock", terminal_width=96, max_content_width=96)
    for name in cli_group.list_commands(context):
        command = cli_group.get_command(context, name)
        assert command is not None
        parts.append(_help(name, command, context))
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=context, terminal_width=96, max_content_width=96)
            for below in command.list_commands(inner):
                child = command.get_command(inner, below)
                assert child is not None
                parts.append(_help(f"{name} {below}", child, inner))
    parts.append("## Exit codes\n\n| code | errors |\n|---|---|\n")
    codes: dict[int, list[str]] = {}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.EnvlockError):
            summary = (kind.__doc__ or "").strip().splitlines()[0]
            codes.setdefault(kind.exit_code, []).append(f"`{kind.__name__}`: {summary}")
    for code, kinds in sorted(codes.items()):
        parts.append(f"| {code} | {'<br>'.join(kinds)} |\n")
    parts.append(
        "\n0 is done, checks passed, no difference; 1 also means a check failed, a lock is stale under `--check`, a "
        "difference under `--exit-code`; 130 is Ctrl-C. `run` and the shim give the command's own code once it runs.\n"
    )
    parts.append(f"\n## JSON\n{_JSON}\n## Environment variables\n{_VARIABLES}")
    return "".join(parts)


def _help(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(
        command, info_name=name.rsplit(" ", 1)[-1], parent=parent, terminal_width=96, max_content_width=96
    )
    return f"\n### {name}\n\n```\n{command.get_help(context)}\n```\n"


def checks() -> str:
    """Return what every check means; `verify --explain ID` says the same."""
    parts = ["# Checks\n\nWritten by `make docs` from the code; `envlock verify --explain ID` says the same.\n"]
    for name, (what, why, remedy) in TEXTS.items():
        parts.append(f"\n## {name}\n\n{what}\n\n- Why: {why}\n- Do: {remedy}\n")
    return "".join(parts)


PAGES = {"reference.md": reference, "checks.md": checks}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (FOLDER / file).write_text(page())
        print(f"wrote docs/{file}", file=sys.stderr)
