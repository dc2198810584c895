"""`fastcell label`: train a stratified sample of the space, for the meta-model to learn from."""

from pathlib import Path
from typing import Annotated

import typer

from . import common


def command(
    cells: Annotated[int, typer.Option(min=1, help="cells to label")] = 800,
    jobs: common.Jobs = 1,
    out: common.Out = Path("runs/label"),
) -> None:
    """Train cells of the space under the full protocol and write them as labels.

    Every run is kept in --out, and the same command goes on from there; what is done so far is
    written to labels.jsonl.gz beside it, with a datasheet, also when Ctrl-C ends it.
    """
    from ..labels import Label, label_runs, write_labels
    from ..search import train_all
    from ..store import Store
    from ..training import train
    from .progress import Bars

    folder = common.make_folder(out)
    path = folder / "labels.jsonl.gz"
    with common.resumable(), Store(folder / "results.sqlite") as store:
        try:
            with Bars() as bars:
                train_all(label_runs(cells), store, train, jobs, bars)
        finally:
            write_labels(path, map(Label.of, store.results()))
    print(path)
