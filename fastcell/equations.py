"""A cell's equations in plain characters, for terminals and pages alike."""

import re

from .ir import Cell

_UNICODE = (
    (r"\\operatorname\{(\w+)\}|\\mathrm\{([^{}]*)\}", r"\1\2"),
    (r"\\left\||\\right\|", "|"),
    (r"\\(tanh|exp|_)", r"\1"),
    (r"\\sigma", "σ"),
    (r"\\odot", "⊙"),
    (r"\^\{-1/2\}", "^(-1/2)"),
    (r"_\{t-1\}", "ₜ₋₁"),
    (r"_t\b", "ₜ"),
    (r"_\{(\w+)\}", r"_\1"),
    (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1) / (\2)"),
)
"""LaTeX of an equation, as `Cell.to_latex` writes it, to signs that a terminal has."""


def equations(cell: Cell) -> list[str]:
    """The cell's equations, one a line: "hₜ = oₜ ⊙ tanh(c_newₜ)"."""
    _, *rows, _ = cell.to_latex().splitlines()
    return [_plain(row) for row in rows]


def _plain(row: str) -> str:
    text = row.removesuffix(r" \\").replace("&=", "=")
    for pattern, sign in _UNICODE:
        text = re.sub(pattern, sign, text)
    return text
