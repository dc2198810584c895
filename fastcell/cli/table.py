"""Results as a table."""

import shutil
import sys
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..results import Result
from ..search import is_reference
from ..wording import label, show_nmse
from . import common


def print_table(results: Sequence[Result], groups: Mapping[int, str] | None = None) -> None:
    """The table on stdout, references marked, and a line for each run that ended early.

    `groups` says by code why a cell was picked.
    """
    several = len({result.seed for result in results}) > 1
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell")
    headings = ["parameters", "best validation NMSE", "test NMSE", "epochs", "seconds"]
    for heading in ["seed"] * several + headings:
        table.add_column(heading, justify="right")
    table.add_column("status")
    if groups:
        table.add_column("picked")
    for result in results:
        group = [groups.get(result.code or 0, "")] if groups else []
        table.add_row(*_row(result, several), *group)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else common.PLAIN_WIDTH
    console = Console(width=width)
    console.print(table)
    if any(map(is_reference, results)):
        console.print("* a known cell, to compare with", highlight=False)
    for result in results:
        if result.error:
            console.print(f"{label(result)}: {result.error}", highlight=False, markup=False)


def _row(result: Result, several: bool) -> list[str]:
    return [
        f"{label(result)} *" if is_reference(result) else label(result),
        *([str(result.seed)] if several else []),
        f"{result.parameters:,}",
        show_nmse(result.best_validation),
        show_nmse(result.test),
        str(result.epochs),
        f"{result.seconds:.1f}",
        result.status,
    ]
