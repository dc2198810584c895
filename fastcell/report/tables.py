"""The tables of the report, as a heading and rows of text."""

from __future__ import annotations

from math import inf
from statistics import fmean, median
from typing import Any, NamedTuple

from ..wording import show_nmse
from .evidence import GROUPS, Evidence, Trained, best_of
from .story import SOURCE, screen_seconds, spread, verdict


class Table(NamedTuple):
    """No rows: the section is left out."""

    heading: list[str]
    rows: list[list[str]]


def timings(evidence: Evidence) -> Table:
    """Seconds of each stage beside the source's."""
    if not evidence.plan:
        return Table([], [])
    screening, top = evidence.screening, evidence.group("top")
    spent = sum(cell.first.seconds for cell in top)
    rows = [
        [f"screening {screening['candidates']:,} candidates, {screening['threads']} threads",
         f"{screen_seconds(evidence):,.1f} s", f"{SOURCE['screening']} s for 1,000,000"],
        [f"training {len(top)} of the most promising, one thread each, in sum",
         f"{spent:,.1f} s", f"{SOURCE['training']:,} s for 50"],
    ]  # fmt: skip
    return Table(["stage", "here", "the source"], rows)


def enrichment(evidence: Evidence) -> Table:
    """The top over the controls."""
    groups = {name: evidence.group(name) for name in GROUPS}
    rows = [_group(GROUPS[name], cells) for name, cells in groups.items() if cells]
    heading = [
        "picked",
        "cells",
        "usable",
        "expected usable",
        "median NMSE",
        "best NMSE",
        "diverged",
    ]
    return Table(heading, rows)


def _group(name: str, cells: list[Trained]) -> list[str]:
    expected = [cell.estimate.usable for cell in cells if cell.estimate]
    values = [min(best_of(cell.first), 1.0) for cell in cells]
    diverged = sum(cell.first.status == "diverged" for cell in cells)
    return [
        name,
        str(len(cells)),
        f"{fmean(cell.usable for cell in cells):.0%}",
        f"{fmean(expected):.0%}" if expected else "-",
        show_nmse(median(values)),
        show_nmse(min(values)),
        str(diverged),
    ]


def rivals(evidence: Evidence) -> Table:
    """The best cell and those of the library under one protocol."""
    best = evidence.best
    if best is None or not evidence.rivals:
        return Table([], [])
    against = [(best, ""), *((cell, verdict(best, cell)) for cell in evidence.rivals)]
    rows = [[cell.name, f"{cell.first.parameters:,}", spread(cell), said] for cell, said in against]
    return Table(["cell", "parameters", "test NMSE", "the best cell against it"], rows)


def scores(evidence: Evidence) -> Table:
    """The meta-model's cross-validated scores."""
    found: dict[str, dict[str, float | None]] = evidence.screening.get("predictor", {}).get(
        "scores", {}
    )
    if not found:
        return Table([], [])
    names = list(next(iter(found.values())))
    rows = [[model, *(_score(each[name]) for name in names)] for model, each in found.items()]
    return Table(["model", *(name.replace("_", " ") for name in names)], rows)


def _score(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.3f}"


def cells(evidence: Evidence) -> list[dict[str, Any]]:
    """A row for each cell, as the page's table and its CSV have it."""
    return [_cell(rank, cell) for rank, cell in enumerate(evidence.cells, start=1)]


def _cell(rank: int, cell: Trained) -> dict[str, Any]:
    said = cell.estimate
    return {
        "rank": rank,
        "cell": cell.name,
        "picked": ", ".join(cell.groups),
        "validation": cell.validation if cell.validation < inf else None,
        "test": median(cell.tests) if cell.tests else None,
        "predicted": float(f"{said.nmse:.3g}") if said else None,
        "probability": said.usable if said else None,
        "seeds": len(cell.runs),
        "epochs": cell.first.epochs,
        "seconds": cell.first.seconds,
        "parameters": cell.first.parameters,
        "status": cell.first.status,
        "code": cell.first.code,
        "text": cell.first.cell_text,
    }
