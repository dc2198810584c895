"""A cell as the text it was parsed from, as LaTeX equations and as a Graphviz graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .node import LEARNABLE, Node
from .ops import BINARY, ROWWISE, UNARY

if TYPE_CHECKING:
    from .ir import Cell

ATOM = 4
UNARY_MINUS = 3


def format_number(value: float) -> str:
    """The shortest text that parses back to the same float; whole numbers without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e16 else repr(value)


def write_text(cell: Cell) -> str:
    """The cell in the language: a line per named value, everything else inline."""
    writer = _TextWriter(cell)
    parameters = ", ".join(node.name or "" for node in cell.sources)
    lines = [f"def {cell.name}({parameters}):"]
    lines += [f"    {name} = {writer.definition(index)}" for index, name in statements(cell)]
    returned = ", ".join(writer.reference(output)[0] for output in cell.outputs)
    return "\n".join([*lines, f"    return {returned}"])


def statements(cell: Cell) -> list[tuple[int, str]]:
    """The named values in order of definition, sources apart."""
    first = len(cell.sources)
    named = enumerate(cell.nodes[first:], start=first)
    return [(index, node.name) for index, node in named if node.name]


class Writer:
    """Shared walk: named values by name, others as (text, precedence) of their expression."""

    def __init__(self, cell: Cell) -> None:
        self.nodes = cell.nodes

    def definition(self, index: int) -> str:
        return self.expression(self.nodes[index])[0]

    def reference(self, index: int) -> tuple[str, int]:
        name = self.nodes[index].name
        return (self.spell(name), ATOM) if name else self.expression(self.nodes[index])

    def spell(self, name: str) -> str:
        raise AssertionError("every writer spells names")

    def expression(self, node: Node) -> tuple[str, int]:
        raise AssertionError("every writer writes expressions")

    def operand(self, index: int, precedence: int) -> str:
        text, own = self.reference(index)
        return text if own >= precedence else f"({text})"

    def number(self, node: Node) -> tuple[str, int]:
        assert node.value is not None
        return format_number(node.value), ATOM if node.value >= 0 else UNARY_MINUS

    def negation(self, node: Node) -> tuple[str, int]:
        return f"-{self.operand(node.args[0], UNARY_MINUS)}", UNARY_MINUS

    def infix(self, node: Node, symbol: str) -> tuple[str, int]:
        """Left-associative, so the right operand binds one tighter."""
        precedence = BINARY[node.op].precedence
        left = self.operand(node.args[0], precedence)
        return f"{left}{symbol}{self.operand(node.args[1], precedence + 1)}", precedence


class _TextWriter(Writer):
    def spell(self, name: str) -> str:
        return name

    def expression(self, node: Node) -> tuple[str, int]:
        if node.op == "const":
            return self.number(node)
        if node.op == "neg":
            return self.negation(node)
        if node.op in BINARY:
            gate = self._gate(node)
            return (gate, ATOM) if gate else self.infix(node, f" {BINARY[node.op].symbol} ")
        return f"{node.op}({', '.join(self._arguments(node))})", ATOM

    def _arguments(self, node: Node) -> list[str]:
        arguments = [self.reference(arg)[0] for arg in node.args]
        if node.op in LEARNABLE:
            assert node.value is not None
            arguments.append(format_number(node.value))
        if node.op == "linear" and not node.bias:
            arguments.append("bias=False")
        return arguments

    def _gate(self, node: Node) -> str | None:
        """`gate(a, b, v)` for sigmoid(linear(a, b)) * v written in one place."""
        squash = self.nodes[node.args[0]]
        if node.op != "mul" or squash.op != "sigmoid" or squash.name:
            return None
        product = self.nodes[squash.args[0]]
        if product.op != "linear" or product.name or not product.bias:
            return None
        return f"gate({', '.join(self.reference(a)[0] for a in (*product.args, node.args[1]))})"


def write_latex(cell: Cell) -> str:
    """The cell's equations as an `aligned` block: x_t, h_{t-1} in, h_t out."""
    writer = _LatexWriter(cell)
    rows = [
        f"{writer.spell(name)} &= {writer.definition(index)}"
        for index, name in statements(cell)
        if cell.nodes[index].op not in LEARNABLE
    ]
    for state, output in zip(cell.states, cell.outputs, strict=True):
        rows.append(f"{_symbol(state.name or '')}_t &= {writer.reference(output)[0]}")
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _symbol(name: str) -> str:
    name = name.strip("_")
    return name if len(name) == 1 else rf"\mathrm{{{name}}}".replace("_", r"\_")


class _LatexWriter(Writer):
    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self._time = {state.name: "_{t-1}" for state in cell.states}
        self._time |= {node.name: "" for node in cell.nodes if node.op in LEARNABLE}

    def spell(self, name: str) -> str:
        return f"{_symbol(name)}{self._time.get(name, '_t')}"

    def expression(self, node: Node) -> tuple[str, int]:
        if node.op == "const":
            return self.number(node)
        if node.op in LEARNABLE:
            return _symbol(node.param or ""), ATOM
        if node.op == "linear":
            return self._linear(node)
        if node.op == "div":
            above, below = (self.reference(arg)[0] for arg in node.args)
            return rf"\frac{{{above}}}{{{below}}}", ATOM
        if node.op in BINARY:
            return self.infix(node, {"mul": r" \odot "}.get(node.op, f" {BINARY[node.op].symbol} "))
        if node.op == "neg":
            return self.negation(node)
        row = UNARY.get(node.op) or ROWWISE[node.op]
        return row.latex.format(self.reference(node.args[0])[0]), ATOM

    def _linear(self, node: Node) -> tuple[str, int]:
        subscript = (node.param or "").replace("_", r"\_")
        sources = "; ".join(self.reference(arg)[0] for arg in node.args)
        product = rf"W_{{{subscript}}} [{sources}]"
        if not node.bias:
            return product, BINARY["mul"].precedence
        return rf"{product} + b_{{{subscript}}}", BINARY["add"].precedence


def write_dot(cell: Cell) -> str:
    """The cell as a Graphviz digraph: sources on top, one node a value, returned states marked."""
    lines = [f'digraph "{cell.name}" {{', "  rankdir=TB; node [shape=box, style=rounded];"]
    for index, node in enumerate(cell.nodes):
        lines.append(f'  n{index} [label="{_label(node)}"{_shape(node)}];')
        lines += [f"  n{arg} -> n{index};" for arg in node.args]
    for position, (state, output) in enumerate(zip(cell.states, cell.outputs, strict=True)):
        lines.append(f'  out{position} [label="{state.name}\'", shape=doublecircle];')
        lines.append(f"  n{output} -> out{position};")
    return "\n".join([*lines, "}"])


_LABELS: dict[str, Callable[[Node], str]] = {
    "input": lambda node: node.name or "",
    "state": lambda node: node.name or "",
    "const": lambda node: format_number(node.value or 0.0),
    "scalar": lambda node: f"scalar {node.param}",
    "vector": lambda node: f"vector {node.param}",
    "linear": lambda node: f"linear {node.param}",
}


def _label(node: Node) -> str:
    own = _LABELS[node.op](node) if node.op in _LABELS else node.op
    named = node.name and node.op not in _LABELS
    return f"{node.name} = {own}" if named else own


def _shape(node: Node) -> str:
    return ", shape=ellipse" if node.op in ("input", "state") else ""
