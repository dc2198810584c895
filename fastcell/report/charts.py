"""The charts: each a function of the evidence onto axes, drawn as SVG for the page and as PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..extras import extra
from .evidence import GROUPS, Evidence, best_of

COLOURS = {"top": "#d97706", "passing": "#3b82f6", "random": "#8b8f98"}
_OTHER = ("#059669", "#8b5cf6", "#dc2626", "#0891b2")
_INK = "#123456"
"""Stands for the page's own colour of text, which an SVG takes on."""


class Chart(NamedTuple):
    """A name for its file, what it shows, an <svg> and a PNG."""

    name: str
    caption: str
    svg: str
    png: bytes


def charts(evidence: Evidence) -> list[Chart]:
    """Those that there is something to draw for. Raises ExtraError without `report`."""
    with extra("report"):
        import matplotlib
    style: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": "fastcell", "font.family": "sans-serif",
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
        "font.size": 10, "legend.fontsize": 8.5,
    }  # fmt: skip
    style |= dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
    )
    with matplotlib.rc_context(style):
        return list(_drawn(evidence))


def _drawn(evidence: Evidence) -> Iterator[Chart]:
    from matplotlib.figure import Figure

    for name, (draw, caption) in _CHARTS.items():
        figure = Figure(figsize=(5.2, 3.7), layout="constrained")
        if draw(evidence, figure.add_subplot()):
            svg, png = io.StringIO(), io.BytesIO()
            figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
            figure.savefig(png, format="png", dpi=160, facecolor="white")
            yield Chart(name, caption, _inline(svg.getvalue()), png.getvalue())


def _inline(svg: str) -> str:
    """The <svg> alone, in the page's colour, scaling with it."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    return re.sub(r'^<svg (.*?)width="[^"]*" height="[^"]*"', r'<svg role="img" \1', svg, count=1)


def _curves(evidence: Evidence, axes: Any) -> bool:
    """NMSE by epoch: groups thin, known cells and the best one thick."""
    for name in reversed(GROUPS):
        for cell in evidence.group(name):
            axes.plot(_epochs(cell.first.validation), cell.first.validation,
                      color=COLOURS[name], lw=0.6, alpha=0.45)  # fmt: skip
    best = [evidence.best] if evidence.best else []
    thick = dict.fromkeys([*best, *(c for c in evidence.cells if c.known)])
    for i, cell in enumerate(list(thick)[:4]):
        curve = cell.first.validation
        axes.plot(_epochs(curve), curve, color=_OTHER[i], lw=1.6, label=cell.name)
    if not axes.lines:
        return False
    axes.set(yscale="log", xlabel="epoch", ylabel="validation NMSE")
    axes.set_ylim(top=3)
    axes.legend()
    return True


def _epochs(curve: tuple[float, ...]) -> range:
    return range(1, len(curve) + 1)


def _predictions(evidence: Evidence, axes: Any) -> bool:
    for name in reversed(GROUPS):
        cells = [cell for cell in evidence.group(name) if cell.estimate]
        said = [cell.estimate.nmse for cell in cells if cell.estimate]
        real = [min(best_of(cell.first), 1.0) for cell in cells]
        if cells:
            axes.scatter(said, real, s=18, color=COLOURS[name], alpha=0.75, label=GROUPS[name])
    if not axes.collections:
        return False
    axes.axline((1e-2, 1e-2), (1, 1), color=_INK, lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="predicted NMSE", ylabel="real NMSE, at most 1")
    axes.legend()
    return True


def _groups(evidence: Evidence, axes: Any) -> bool:
    for name, title in GROUPS.items():
        values = sorted(min(best_of(cell.first), 1.0) for cell in evidence.group(name))
        if values:
            axes.ecdf(values, color=COLOURS[name], label=title)
    if not axes.lines:
        return False
    axes.set(xscale="log", xlabel="best validation NMSE, at most 1", ylabel="share of cells")
    axes.legend()
    return True


def _calibration(evidence: Evidence, axes: Any) -> bool:
    found = evidence.screening.get("predictor", {}).get("calibration", {})
    for i, (model, bins) in enumerate(found.items()):
        means, shares, _ = zip(*bins, strict=True)
        axes.plot(means, shares, "o-", color=_OTHER[i % 4], ms=4, lw=1.2, label=model)
    if not found:
        return False
    axes.axline((0, 0), (1, 1), color=_INK, lw=0.8, ls=":")
    axes.set(xlabel="probability given", ylabel="share that is usable")
    axes.legend()
    return True


_CHARTS: dict[str, tuple[Callable[[Evidence, Any], bool], str]] = {
    "curves": (_curves, "Validation NMSE by epoch, first seed."),
    "predictions": (_predictions, "Predicted against real best validation NMSE."),
    "groups": (_groups, "How many cells of a group come that low: the top over the controls."),
    "calibration": (_calibration, "Calibration of the meta-models on cells they had not seen."),
}
