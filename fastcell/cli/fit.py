"""`fastcell fit`: the meta-model anew, from labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import common


def command(
    labels: Annotated[
        Path | None, typer.Argument(help="file of `fastcell label`; else the shipped labels")
    ] = None,
    out: common.Out = Path("runs/fit"),
    json: common.Json = False,
) -> None:
    """Fit the meta-model to labels, beside its rivals, and write it and its scores.

    Writes predictor.safetensors and predictor.json to --out. Needs LightGBM and SciPy: pip install
    fastcell[fit].
    """
    from json import dumps

    from ..files import write_whole
    from ..labels import SHIPPED, read_labels
    from ..meta.boosting import BoostingModel
    from ..meta.dataset import dataset
    from ..meta.fit import compare
    from ..predictor import provenance, write_predictor

    read = read_labels(labels or SHIPPED)
    data = dataset(read)
    report = {**provenance(labels or SHIPPED), **compare(read, data)}
    model = BoostingModel()
    model.fit(data, seed=0)
    folder = common.make_folder(out)
    write_predictor(folder / "predictor.safetensors", model, report)
    write_whole(folder / "predictor.json", (dumps(report, indent=2) + "\n").encode())
    if json:
        common.print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns = list(next(iter(report["scores"].values())))
    table.add_column("held-out cells")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for name, scores in report["scores"].items():
        table.add_row(name, *(f"{scores[column]:.3f}" for column in columns))
    console = Console(width=common.PLAIN_WIDTH)
    console.print(table)
    print(f"{report['cells']:,} cells, {report['usable']:,} of them usable")
    print("learning curve (Kendall's tau by cells learned from):", end="")
    for count, scores in report["learning_curve"].items():
        print(f" {count}: {scores['kendall']:.3f}", end="")
    print(f"\nnoise ceiling: {report['noise_ceiling']}")
