"""`fastcell show`: everything about one cell."""

from typing import Annotated, Any

import typer

from .. import space
from ..equations import equations
from ..ir import Cell
from ..results import DEFAULT_PROTOCOL
from . import common


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
