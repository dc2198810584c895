"""The page: the template filled in, styles and script within, and the files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..equations import equations
from ..errors import StoreError
from ..export import write_csv
from ..extras import extra
from ..files import write_whole
from ..picture import draw
from ..store import Store
from ..wording import show_nmse
from . import tables
from .charts import Chart, charts
from .evidence import Evidence
from .story import story

_HERE = Path(__file__).parent


def write_report(store: Store, folder: Path) -> Path:
    """Writes report.html, cells.csv and a PNG a chart; the path of the page.

    Raises StoreError for an empty store or a folder that can't be written, ExtraError without the
    extra `report`.
    """
    evidence = Evidence.read(store)
    if not evidence.cells and not evidence.plan:
        raise StoreError(f"{store.path}: expected results to report, found none: train some cells")
    drawn = charts(evidence)
    page = render(evidence, drawn)
    rows = tables.cells(evidence)
    if rows:
        write_whole(folder / "cells.csv", write_csv(list(rows[0]), rows))
    for chart in drawn:
        write_whole(folder / f"{chart.name}.png", chart.png)
    path = folder / "report.html"
    write_whole(path, page.encode())
    return path


def render(evidence: Evidence, drawn: list[Chart]) -> str:
    """The page as HTML."""
    with extra("report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html").render(_values(evidence, drawn))


def _values(evidence: Evidence, drawn: list[Chart]) -> dict[str, Any]:
    best = evidence.best
    shown = zip(tables.cells(evidence), evidence.cells, strict=True)
    return {
        "css": (_HERE / "page.css").read_text(),
        "script": (_HERE / "page.js").read_text(),
        "story": story(evidence),
        "best": best,
        "best_picture": draw(best.cell) if best else "",
        "best_equations": equations(best.cell) if best else [],
        "tables": {
            "Stages": tables.timings(evidence),
            "The best cell and known ones": tables.rivals(evidence),
            "The most promising over the controls": tables.enrichment(evidence),
            "The meta-model, cross-validated": tables.scores(evidence),
        },
        "charts": drawn,
        "rows": [{**row, "picture": draw(cell.cell)} for row, cell in shown],
        "show_nmse": show_nmse,
        "protocol": evidence.cells[0].first.protocol if evidence.cells else None,
        "versions": evidence.cells[0].first.versions if evidence.cells else "",
    }
