"""`fastcell experiment`: published experiments, run again with many seeds."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from . import common

app = typer.Typer(help="Published experiments, run again with many seeds.")


@app.command("lswm")
def lswm(
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds, from 0 up")] = 20,
    out: common.Out = Path("runs/lswm"),
    json: common.Json = False,
) -> None:
    """Train LSTM, GRU and both LSWM on branching chains, beside torch's LSTM.

    Writes lswm.json and lswm.md to --out after each seed, whole: Ctrl-C leaves those done.
    """
    from ..experiments.lswm import Outcome, run
    from ..experiments.lswm_report import report, table
    from ..files import write_whole

    folder = common.make_folder(out)
    outcomes: list[Outcome] = []
    try:
        for of_seed in run(seeds):
            outcomes += of_seed
            found = report(outcomes)
            write_whole(folder / "lswm.json", f"{dumps(found, indent=2)}\n".encode())
            write_whole(folder / "lswm.md", f"{table(found)}\n".encode())
            losses = ", ".join(f"{each.model} {each.loss:.4f}" for each in of_seed)
            print(f"seed {of_seed[0].seed}, loss: {losses}", file=sys.stderr)
    except KeyboardInterrupt:
        done = len({outcome.seed for outcome in outcomes})
        print(f"interrupted; {done} of {seeds} seeds are in {folder}", file=sys.stderr)
        raise typer.Exit(common.INTERRUPTED) from None
    if json:
        common.print_json(found)
    else:
        print(table(found))
