"""`fastcell train`: cells of one's choice, with one seed or several."""

from pathlib import Path
from typing import Annotated

import typer

from ..results import DEFAULT_PROTOCOL, Protocol, Run
from . import common


def command(
    cells: Annotated[
        list[str], typer.Argument(help="names of the library, codes, or files with a cell's text")
    ],
    seed: common.Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds, from --seed up")] = 1,
    jobs: common.Jobs = 1,
    executor: common.Executor = "local",
    out: common.Out = Path("runs/train"),
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
    """Train cells on the Adding task and print how well they did.

    Every result is kept in --out, and nothing that is there is trained again.
    """
    protocol = Protocol(
        epochs, batch_size, optimizer, learning_rate, clip, hidden_size, dtype, patience
    )
    found = [common.find_cell(cell)[0] for cell in cells]
    runs = [Run(cell, "adding", protocol, seed + i) for cell in found for i in range(seeds)]
    from ..search import train_all
    from ..store import Store
    from ..training import train
    from .progress import Bars
    from .table import print_table

    path = common.make_folder(out) / common.STORE
    with common.resumable(), Store(path) as store, Bars() as bars:
        results = train_all(runs, store, train, jobs, bars, executor)
    if json:
        common.print_json([result.to_dict() for result in results])
    else:
        print_table(results)
