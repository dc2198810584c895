"""`fastcell report`: what a run found, as a page."""

from pathlib import Path
from typing import Annotated

import typer

from . import common


def command(
    run: common.RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="folder to write to; else `report` in the run's")
    ] = None,
) -> None:
    """Write report.html, one page that needs no network, with its charts and table beside it.

    A run that is not finished is told as far as it is. Needs matplotlib and Jinja: pip install
    fastcell[report].
    """
    from ..report import write_report

    with common.open_store(run) as store:
        print(write_report(store, common.make_folder(out or run / "report")))
