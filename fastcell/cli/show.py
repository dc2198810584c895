"""`fastcell show`: everything about one cell."""

import re
from typing import Annotated, Any

import typer

from .. import space
from ..ir import Cell
from ..results import DEFAULT_PROTOCOL
from . import common

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


def command(
    cell: common.CellArgument,
    dot: Annotated[bool, typer.Option("--dot", help="only the graph, for Graphviz")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="only the equations, in LaTeX")] = False,
    json: common.Json = False,
) -> None:
    """Show a cell: text, equations, parameters, key, and its code when it is in the space."""
    if dot + latex + json > 1:
        raise typer.BadParameter("expected one of --dot, --latex and --json, found several")
    found, code = common.find_cell(cell)
    if dot:
        print(found.to_dot())
    elif latex:
        print(found.to_latex())
    elif json:
        common.print_json(describe(found, code))
    else:
        _print(found, describe(found, code))


def describe(cell: Cell, code: int | None) -> dict[str, Any]:
    """What there is to say, as JSON has it; sizes are those of the default protocol."""
    size = DEFAULT_PROTOCOL.hidden_size
    shapes = cell.parameters(size, size)
    return {
        "name": cell.name,
        "text": str(cell),
        "equations": equations(cell),
        "input_size": size,
        "hidden_size": size,
        "parameter_count": cell.parameter_count(size, size),
        "parameters": {name: list(shape) for name, shape in shapes.items()},
        "key": cell.key,
        "code": code,
        "order": None if code is None else list(space.ORDERS[int(space.order(code))]),
    }


def equations(cell: Cell) -> list[str]:
    """The cell's equations in plain characters, one a line: "hₜ = oₜ ⊙ tanh(c_newₜ)"."""
    _, *rows, _ = cell.to_latex().splitlines()
    return [_plain(row) for row in rows]


def _plain(row: str) -> str:
    text = row.removesuffix(r" \\").replace("&=", "=")
    for pattern, sign in _UNICODE:
        text = re.sub(pattern, sign, text)
    return text


def _print(cell: Cell, facts: dict[str, Any]) -> None:
    print(cell)
    print()
    for equation in facts["equations"]:
        print(f"    {equation}")
    size = facts["hidden_size"]
    print(f"\nparameters  {facts['parameter_count']:,} at input size {size}, hidden size {size}")
    for name, shape in facts["parameters"].items():
        print(f"            {name} {' x '.join(map(str, shape)) or 'scalar'}")
    print(f"key         {facts['key']}")
    if facts["code"] is None:
        print("code        none: it is not in the search space")
    else:
        print(f"code        {facts['code']}")
        print(f"order       {', '.join(facts['order'])}")
