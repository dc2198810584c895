"""`fastcell search`: screen cells, train the best beside the references, print the table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..results import DEFAULT_PROTOCOL, Protocol, Result
from . import common


def command(
    candidates: Annotated[int, typer.Option(help="cells to draw from the space")] = 1_000_000,
    train: Annotated[int, typer.Option(help="most promising of them, to train")] = 6,
    control: Annotated[
        int, typer.Option(help="cells to train at random: of those that pass, and of all")
    ] = 0,
    finalists: Annotated[int, typer.Option(help="best cells, to train with five seeds")] = 0,
    seed: common.Seed = 0,
    jobs: common.Jobs = 1,
    executor: common.Executor = "local",
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

    The meta-model estimates every candidate; the best are trained, and rnn, lstm and adding_dag
    beside them. Every result is kept in --out: the same command goes on from there.
    """
    protocol = Protocol(
        epochs, batch_size, optimizer, learning_rate, clip, hidden_size, dtype, patience
    )
    from ..predictor import shipped
    from ..search import Options, is_reference, search
    from ..store import Store
    from ..training import train as train_cell
    from .progress import Bars

    options = Options(candidates, train, control, finalists, seed, protocol=protocol)
    path = common.make_folder(out) / "results.sqlite"
    with common.resumable(), Store(path) as store, Bars() as bars:
        results = search(options, store, train_cell, shipped(), jobs, bars, executor)
        plan = store.plan()
    if json:
        rows = [{**result.to_dict(), "reference": is_reference(result)} for result in results]
        common.print_json({**plan, "results": rows})
    else:
        _print(results, plan)


def _print(results: list[Result], plan: dict[str, Any]) -> None:
    from ..screening import THRESHOLD
    from .table import print_table

    screening, picked = plan["screening"], plan["picked"]
    print(
        f"{screening['passed']:,} of {screening['candidates']:,} candidates pass: the meta-model"
        f" gives them {THRESHOLD:.0%} or more to learn the task. Trained: the"
        f" {len(picked['top'])} most promising of them"
        f"{_controls(picked)}."
    )
    groups = {code: name for name in reversed(picked) for code in picked[name]}
    print_table(results, groups)


def _controls(picked: dict[str, list[int]]) -> str:
    counts = len(picked["passing"]), len(picked["random"])
    return f"; {counts[0]} of those that pass and {counts[1]} of all, at random" * any(counts)
