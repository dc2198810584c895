"""`fastcell label`: train a stratified sample of the space, for the meta-model to learn from."""

from pathlib import Path
from typing import Annotated

import typer

from . import common


def command(
    cells: Annotated[int, typer.Option(min=1, help="cells to label")] = 800,
    jobs: common.Jobs = 1,
    executor: common.Executor = "local",
    out: common.Out = Path("runs/label"),
) -> None:
    """Train cells of the space under the full protocol and write them as labels.

    Every run is kept in --out, and the same command goes on from there; what is done so far is
    written to labels.jsonl.gz beside it, with a datasheet, also when Ctrl-C ends it. A file of
    labels that lies there already is added to: put the shipped one there to go on from it.
    """
    from ..labels import Label, label_runs, read_labels, run_id, write_labels
    from ..search import train_all
    from ..store import Store
    from ..training import train
    from .progress import Bars

    folder = common.make_folder(out)
    path = folder / "labels.jsonl.gz"
    known = {label.id: label for label in read_labels(path)} if path.exists() else {}
    runs = [run for run in label_runs(cells) if run_id(run) not in known]
    with common.resumable(), Store(folder / common.STORE) as store:
        try:
            with Bars() as bars:
                train_all(runs, store, train, jobs, bars, executor)
        finally:
            new = {label.id: label for label in map(Label.of, store.results())}
            write_labels(path, {**new, **known}.values())
    print(path)
