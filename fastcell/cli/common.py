"""What commands share: cells by name, the protocol's options, and how they end."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import space
from ..errors import StoreError, TaskError
from ..ir import Cell
from ..language import MAX_CHARACTERS, parse
from ..library import CELLS
from ..results import code_of
from ..store import Store

STORE = "results.sqlite"
"""The store's file in the folder of a run."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

PLAIN_WIDTH = 160
"""Columns of a table when nobody looks: nothing is cut in a file or a pipe."""

CellArgument = Annotated[
    str, typer.Argument(help="a name of the library, a code, or a file with a cell's text")
]
RunArgument = Annotated[Path, typer.Argument(help="folder that keeps the results of a run")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, for a program to read")]
Seed = Annotated[int, typer.Option(help="all that is random follows from it")]
Out = Annotated[Path, typer.Option(help="folder that keeps the results")]
Jobs = Annotated[int, typer.Option(min=1, help="runs at a time, a process each")]
Executor = Annotated[str, typer.Option(help="where runs are computed: local or ray")]
Epochs = Annotated[int, typer.Option(help="passes over the training data")]
BatchSize = Annotated[int, typer.Option(help="sequences in an update")]
Optimizer = Annotated[str, typer.Option(help="adam, adamw or sgd")]
LearningRate = Annotated[float, typer.Option(help="of the optimizer")]
Clip = Annotated[float, typer.Option(help="largest norm of the gradient; 0 lets it be")]
HiddenSize = Annotated[int, typer.Option(help="width of a state")]
Dtype = Annotated[str, typer.Option(help="float32 or float64")]
Patience = Annotated[int, typer.Option(help="epochs a hopeless run may go on for; 0: all")]


def find_cell(given: str) -> tuple[Cell, int | None]:
    """The cell and its code, None outside the space, by library name, code or path of a file.

    Raises TaskError when it is none of them, LanguageError and CodeError when it is a bad one.
    """
    if given in CELLS:
        return CELLS[given], code_of(CELLS[given])
    if given.isdecimal():
        code = int(space.canonicalize(int(given)))
        return space.decode(code), code
    cell = parse(_read(Path(given)))
    return cell, code_of(cell)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(MAX_CHARACTERS + 1)
    except FileNotFoundError:
        known = ", ".join(CELLS)
        raise TaskError(
            f"cell: expected one of {known}, a code or a file, found '{path}'"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"cell: expected a file with a cell's text, found {error}") from None


def make_folder(path: Path) -> Path:
    """The folder, made if need be. Raises StoreError when it can't be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"--out: expected a folder that can be written, found {error}") from None
    return path


def open_store(run: Path) -> Store:
    """The store in a run's folder. Raises StoreError when there is none."""
    path = run / STORE
    if not path.is_file():
        raise StoreError(f"{run}: expected the folder of a run, with a {STORE}, found none")
    return Store(path)


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    json.dump(value, sys.stdout, allow_nan=False, indent=2)
    print()


@contextmanager
def resumable() -> Iterator[None]:
    """Turns Ctrl-C into an end that says how to go on: the same command."""
    try:
        yield
    except KeyboardInterrupt:
        command = shlex.join(["fastcell", *sys.argv[1:]])
        print(f"interrupted; what is done is kept, this goes on: {command}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
