"""`fastcell results`: what a run's folder has, as a table or for another program."""

import sys
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from ..export import FORMATS
from ..files import write_whole
from ..results import Result, Status
from . import common

Format: TypeAlias = Literal["table", "csv", "json", "parquet"]


def command(
    run: common.RunArgument,
    status: Annotated[Status | None, typer.Option(help="only runs that ended so")] = None,
    cell: Annotated[str | None, typer.Option(help="only this one: its name, code or key")] = None,
    seed: Annotated[int | None, typer.Option(help="only runs with this seed")] = None,
    format: Annotated[Format, typer.Option(help="how they are written")] = "table",
    out: Annotated[Path | None, typer.Option(help="a file in place of stdout")] = None,
) -> None:
    """List the results of a run, the best first, or export them.

    CSV leaves the validation curves out. Parquet needs pyarrow: pip install fastcell[parquet].
    """
    from ..search import ranked

    with common.open_store(run) as store:
        found = ranked(
            result
            for result in store.results()
            if status in (None, result.status)
            and seed in (None, result.seed)
            and cell in (None, result.name, str(result.code), result.cell_key)
        )
    if format == "table":
        _print(found, out)
    else:
        _write(FORMATS[format](found), out)


def _print(results: list[Result], out: Path | None) -> None:
    from .table import print_table

    if out is not None:
        raise typer.BadParameter("--out: expected --format csv, json or parquet, found table")
    print_table(results)


def _write(content: bytes, out: Path | None) -> None:
    if out is None:
        sys.stdout.buffer.write(content)
    else:
        write_whole(out, content)
        print(out, file=sys.stderr)
