"""The command line: a module for each command.


A command imports torch and rich when it runs and needs them: `show` and `space` do not.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from ..errors import FastcellError
from . import (
    compile,
    experiment,
    fit,
    label,
    predict,
    report,
    results,
    search,
    show,
    space,
    train,
)

app = typer.Typer(
    name="fastcell",
    help="Recurrent cells as text: look at them, train them, search for them.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("search")(search.command)
app.command("train")(train.command)
app.command("label")(label.command)
app.command("fit")(fit.command)
app.command("predict")(predict.command)
app.command("report")(report.command)
app.command("results")(results.command)
app.command("show")(show.command)
app.command("compile")(compile.command)
app.add_typer(space.app, name="space")
app.add_typer(experiment.app, name="experiment")

USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 done, 2 an error that the user can mend, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(given or ["--help"], prog_name="fastcell", standalone_mode=False)
    except (FastcellError, typer.TyperException) as error:
        message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        print("error:", " ".join(message.split()), file=sys.stderr)
        code = USAGE_ERROR
    sys.exit(code or 0)
