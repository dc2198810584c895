"""The drawing as SVG: one self-contained element, in colours that do on light and dark pages."""

from __future__ import annotations

from html import escape

from ..ir import Cell
from .diagram import Box, Diagram, Link, diagram
from .layout import Layout, lay_out

_MARGIN = 4.0
_PADDING = 7.0
_NAME_SIZE, _FORMULA_SIZE = 11.0, 9.5
_CHARACTER = 0.58
"""Mean width of one, in font sizes."""
_PORT = 7.0
"""How far apart a gate's weighted links and its value come in, from the middle."""
_COLOURS = {
    "source": "#64748b",
    "output": "#64748b",
    "gate": "#d97706",
    "linear": "#3b82f6",
    "sum": "#059669",
    "op": "#8b5cf6",
}


def draw(cell: Cell) -> str:
    """An <svg> of the cell: sources on the left, new states on the right.

    Links through a weight matrix are dashed. A box is a <g class="box"> whose data-nodes are the
    nodes it stands for, a link a <path class="link">.
    """
    drawn = diagram(cell)
    sizes = [_size(box) for box in drawn.boxes]
    layout = lay_out(
        sizes,
        links=[(link.start, link.end) for link in drawn.links],
        bundles=[(link.start, link.weighted) for link in drawn.links],
        first=drawn.of_kind("source"),
        last=drawn.of_kind("output"),
    )
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN:g} {-_MARGIN:g} {width:.4g}'
        f' {height:.4g}" width="{width:.4g}" height="{height:.4g}" role="img"'
        ' font-family="system-ui, sans-serif" text-anchor="middle" fill="currentColor">',
        f"<title>{escape(cell.name)}</title>",
        '<g fill="none" stroke="currentColor" stroke-width="1.1" opacity="0.75">',
        *_links(drawn, layout, sizes),
        "</g>",
        *(_box(box, layout.x(i), layout.y[i], *sizes[i]) for i, box in enumerate(drawn.boxes)),
        "</svg>",
    ]
    return "\n".join(lines)


def _size(box: Box) -> tuple[float, float]:
    """(width, height) of a box: it holds its name over its formula."""
    width = max(len(box.name) * _NAME_SIZE, len(box.formula) * _FORMULA_SIZE) * _CHARACTER
    return max(width + 2 * _PADDING, 24.0), 32.0 if box.name and box.formula else 22.0


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    nodes, colour = " ".join(map(str, box.nodes)), _COLOURS[box.kind]
    round_ends = box.kind in ("source", "output")
    shape = (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}"'
        f' height="{height:.1f}" rx="{height / 2 if round_ends else 5:g}" fill="{colour}"'
        f' fill-opacity="0.16" stroke="{colour}" stroke-width="1.2"/>'
    )
    texts = [text for text in (box.name, box.formula) if text]
    first = y if len(texts) == 1 else y - 6
    written = "".join(
        _text(text, x, first + 13 * i, bold=text is box.name) for i, text in enumerate(texts)
    )
    return f'<g class="box {box.kind}" data-nodes="{nodes}">{shape}{written}</g>'


def _text(text: str, x: float, y: float, bold: bool) -> str:
    size = _NAME_SIZE if bold else _FORMULA_SIZE
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:g}"{weight}>'
        f"{escape(text)}</text>"
    )


def _links(drawn: Diagram, layout: Layout, sizes: list[tuple[float, float]]) -> list[str]:
    """A path for each link, with a small head where it comes in."""
    dashed = ' stroke-dasharray="3 2"'
    return [
        f'<path class="link" d="{_path(drawn, layout, sizes, i)}"{dashed * link.weighted}/>'
        for i, link in enumerate(drawn.links)
    ]


def _path(drawn: Diagram, layout: Layout, sizes: list[tuple[float, float]], number: int) -> str:
    """Across each gap in a curve that is level at both ends, across each column level."""
    link = drawn.links[number]
    column = layout.column_of[link.start]
    x, y = layout.x(link.start) + sizes[link.start][0] / 2, layout.y[link.start]
    steps = [f"M{x:.1f} {y:.1f}H{layout.columns[column][1]:.1f}"]
    end = layout.y[link.end] + _port(drawn, link)
    for height in (*layout.passes[number], end):
        right, left = layout.columns[column][1], layout.columns[column + 1][0]
        middle = (right + left) / 2
        steps.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {height:.1f} {left:.1f} {height:.1f}")
        column, y = column + 1, height
        if column < layout.column_of[link.end]:
            steps.append(f"H{layout.columns[column][1]:.1f}")
    tip = layout.x(link.end) - sizes[link.end][0] / 2
    return "".join(steps) + f"H{tip:.1f}m-4 -3l4 3l-4 3"


def _port(drawn: Diagram, link: Link) -> float:
    if drawn.boxes[link.end].kind != "gate":
        return 0.0
    return -_PORT if link.weighted else _PORT
