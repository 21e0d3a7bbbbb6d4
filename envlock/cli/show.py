"""What every command shows: progress while it works, and marks that mean the same everywhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from rich.progress import TaskID

MARK = {"pass": ("ok", "green"), "warn": ("!", "yellow"), "fail": ("x", "red"), "skip": ("-", "bright_black")}


def mark(status: str) -> str:
    """Return the short coloured mark of a status (colour only on a terminal, and without NO_COLOR)."""
    sign, colour = MARK[status]
    return click.style(f"{sign:>2}", fg=colour, bold=status in ("fail", "warn"))


class Steps:
    """Shows what is being done for each profile: live lines on a terminal, plain lines elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console  # late: most commands end before there is progress to show
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._live = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._stages: dict[str, str] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.fields[name]}[/]"),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def __call__(self, name: str, step: str) -> None:
        if self._quiet:
            return
        with self._lock:
            if not self._live:
                stage = step.partition(",")[0]  # a count after a comma changes often: one line a stage in a log file
                if self._stages.get(name) != stage:
                    self._stages[name] = stage
                    click.echo(f"{name}: {step}", err=True)
                return
            task = self._tasks.get(name)
            if task is None:
                self._tasks[name] = self._progress.add_task(step, name=name, total=None)
            else:
                self._progress.update(task, description=step)


@contextmanager
def steps(*, quiet: bool = False) -> Iterator[Steps]:
    """Show progress for the block, on stderr."""
    with Steps(quiet=quiet) as shown:
        yield shown


def columns(rows: Sequence[tuple[str, ...]], heads: tuple[str, ...], colours: Mapping[str, str] | None = None) -> str:
    """Return rows as an aligned table without lines; a cell that is a key of `colours` gets that colour."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    shown = [
        click.style(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(heads, widths, strict=True)).rstrip(), bold=True
        )
    ]
    for row in rows:
        cells = []
        for cell, width in zip(row, widths, strict=True):
            padded = f"{cell:<{width}}"
            colour = (colours or {}).get(cell)
            cells.append(click.style(padded, fg=colour) if colour else padded)
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)
