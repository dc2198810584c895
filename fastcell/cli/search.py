"""`fastcell search`: sample cells, train some beside the references, print the table."""

from pathlib import Path
from typing import Annotated

import typer

from ..results import DEFAULT_PROTOCOL, Protocol, Result
from . import common


def command(
    candidates: Annotated[int, typer.Option(help="cells to draw from the space")] = 1_000_000,
    train: Annotated[int, typer.Option(help="cells of them to train")] = 6,
    seed: common.Seed = 0,
    jobs: common.Jobs = 1,
    out: common.Out = Path("runs/search"),
    json: common.Json = False,
    epochs: common.Epochs = DEFAULT_PROTOCOL.epochs,
    batch_size: common.BatchSize = DEFAULT_PROTOCOL.batch_size,
    optimizer: common.Optimizer = DEFAULT_PROTOCOL.optimizer,
    learning_rate: common.LearningRate = DEFAULT_PROTOCOL.learning_rate,
    clip: common.Clip = DEFAULT_PROTOCOL.clip,
    hidden_size: common.HiddenSize = DEFAULT_PROTOCOL.hidden_size,
    dtype: common.Dtype = DEFAULT_PROTOCOL.dtype,
    patience: common.Patience = DEFAULT_PROTOCOL.patience,
) -> None:
    """Search the space for cells that learn the Adding task.

    Cells to train are drawn from the candidates at random, and rnn, lstm and adding_dag are
    trained beside them. Every result is kept in --out: the same command goes on from there.
    """
    protocol = Protocol(
        epochs, batch_size, optimizer, learning_rate, clip, hidden_size, dtype, patience
    )
    from ..search import Options, is_reference, search
    from ..store import Store
    from ..training import train as train_cell
    from .progress import Bars

    options = Options(candidates, train, seed, protocol=protocol)
    path = common.make_folder(out) / "results.sqlite"
    with common.resumable(), Store(path) as store, Bars() as bars:
        results = search(options, store, train_cell, jobs, bars)
    if json:
        rows = [{**result.to_dict(), "reference": is_reference(result)} for result in results]
        common.print_json({"options": options.as_plan(), "results": rows})
    else:
        _print(results, options.candidates, options.train, seed)


def _print(results: list[Result], candidates: int, train: int, seed: int) -> None:
    from .table import print_table

    print(
        f"{train:,} of {candidates:,} candidates were trained. No predictor chose them: they are"
        f" a uniform sample, drawn with seed {seed}."
    )
    print_table(results)
