"""`fastcell space`: the search space as numbers."""

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import space
from ..errors import StoreError
from . import common

app = typer.Typer(help="The search space: how many cells, some of them, what they are like.")

Number = Annotated[int, typer.Argument(help="how many cells")]


@app.command("count")
def count(json: common.Json = False) -> None:
    """The exact number of cells, up to the names of gates."""
    total = space.count()
    if json:
        common.print_json({"space": space.SPACE_VERSION, "count": total})
    else:
        print(f"{total:,}")


@app.command("sample")
def sample(
    n: Number,
    seed: common.Seed = 0,
    orders: Annotated[int, typer.Option(help="take the first so many of the 24 orders")] = 24,
    out: Annotated[Path | None, typer.Option(help="a .npy file in place of stdout")] = None,
    json: common.Json = False,
) -> None:
    """Draw cells, evenly over the 24 orders and uniformly within each; a code a line."""
    codes = space.sample(n, seed, orders)
    if out is not None:
        _save(out, codes)
    elif json:
        common.print_json(codes.tolist())
    else:
        sys.stdout.writelines(f"{code}\n" for code in codes.tolist())


@app.command("stats")
def stats(n: Number = 1_000_000, seed: common.Seed = 0, json: common.Json = False) -> None:
    """Draw cells and tell what they are like; all cells by canonical order, exactly."""
    facts = describe(space.sample(n, seed))
    if json:
        common.print_json(facts)
        return
    print(f"{facts['count']:,} cells in all; {n:,} drawn with seed {seed}, of which")
    print(f"{facts['distinct_functions']:,} are distinct functions\n")
    print(f"{'canonical order':28}{'cells in all':>18}{'share':>8}{'drawn':>12}")
    for row in facts["orders"]:
        share = row["count"] / facts["count"]
        name = " ".join(row["order"])
        print(f"{name:28}{row['count']:>18,}{share:>8.2%}{row['sampled']:>12,}")


def describe(codes: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, Any]:
    """Counts of the whole space and of the sampled codes, by canonical order."""
    sampled = np.bincount(space.order(codes), minlength=len(space.ORDERS)).tolist()
    rows = zip(space.ORDERS, space.strata(), sampled, strict=True)
    return {
        "space": space.SPACE_VERSION,
        "count": space.count(),
        "sampled": len(codes),
        "distinct_functions": len(np.unique(space.functional_key(codes))),
        "orders": [{"order": list(o), "count": c, "sampled": s} for o, c, s in rows],
    }


def _save(path: Path, codes: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    try:
        with path.open("wb") as stream:
            np.save(stream, codes)
    except OSError as error:
        raise StoreError(f"--out: expected a file that can be written, found {error}") from None
    print(f"{len(codes):,} codes in {path}", file=sys.stderr)
