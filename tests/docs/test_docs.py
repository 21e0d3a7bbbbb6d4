"""The generated pages are current, every command has an example, every link leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import pytest

from envlock.cli.main import cli_group

ROOT = Path(__file__).parent.parent.parent
_spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("file", sorted(generate.PAGES))
def test_generated_pages_are_current(file: str) -> None:
    assert (ROOT / "docs" / file).read_text() == generate.PAGES[file](), f"docs/{file} is old: make docs"


def test_every_command_has_help_with_an_example() -> None:
    context = click.Context(cli_group)
    for name in cli_group.list_commands(context):
        command = cli_group.get_command(context, name)
        assert command is not None
        text = command.help or ""
        assert "envlock" in text or isinstance(command, click.Group), f"{name}: no example in its help"


@pytest.mark.parametrize(
    "page", [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("http", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
