"""What is drawn of a cell: boxes, each for one node or for several that are read as one, and links.

source, output     the input and the states; the new states
gate               sigmoid(linear(a, b)) * v, and tanh(v) with it, in one box
linear             a product, and the function of it, in one box
sum                a + b + c in one box; a sum with no name that is a new state, in its box
op                 everything else; numbers stand in the box that reads them
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..ir import Cell
from ..node import Node
from ..ops import BINARY, ROWWISE, UNARY
from ..text import format_number

Kind: TypeAlias = Literal["source", "output", "gate", "linear", "sum", "op"]

_SQUASHES = ("sigmoid", "softsign_scaled")
_SIGNS = {
    "sigmoid": "σ",
    "softsign_scaled": "softsignₛ",
    "neg": "−",
    "abs": "|·|",
    "layernorm": "LN",
    "rmsnorm": "RMS",
    "linear": "W",
    "add": "+",
    "sub": "−",
    "mul": "⊙",
    "div": "÷",
}


class Link(NamedTuple):
    """From one box to another, by number; `weighted` when it goes through a weight matrix."""

    start: int
    end: int
    weighted: bool


@dataclass(frozen=True)
class Box:
    """`name` in the text, if any, `formula` of what it does, and the nodes of the cell in it."""

    kind: Kind
    name: str
    formula: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Diagram:
    """Boxes, the sources first and the outputs last, and the links between them."""

    boxes: tuple[Box, ...]
    links: tuple[Link, ...]

    def of_kind(self, kind: Kind) -> list[int]:
        """The numbers of the boxes of that kind."""
        return [i for i, box in enumerate(self.boxes) if box.kind == kind]


class _Input(NamedTuple):
    node: int
    weighted: bool = False


class _Part(NamedTuple):
    """A box to be, with the nodes that flow into it."""

    box: Box
    inputs: tuple[_Input, ...]


def diagram(cell: Cell) -> Diagram:
    """The boxes and links of a cell; every node is in some box."""
    reader = _Reader(cell)
    outputs = [reader.output(place) for place in range(len(cell.outputs))]
    parts = reader.parts(outputs)
    number = {node: i for i, node in enumerate(parts)}
    whole = [*parts.values(), *outputs]
    links = (
        Link(number[source.node], i, source.weighted)
        for i, part in enumerate(whole)
        for source in part.inputs
    )
    return Diagram(tuple(part.box for part in whole), tuple(links))


class _Reader:
    """Reads boxes off the nodes."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.nodes = cell.nodes
        self.uses = Counter(arg for node in cell.nodes for arg in node.args)
        self.uses.update(cell.outputs)

    def parts(self, outputs: list[_Part]) -> dict[int, _Part]:
        """By its last node, each box that the outputs need, and all sources, in order."""
        wanted = {source.node for part in outputs for source in part.inputs}
        wanted |= set(range(len(self.cell.sources)))
        found = dict[int, _Part]()
        for index in reversed(range(len(self.nodes))):
            if index in wanted:
                found[index] = self.part(index)
                wanted |= {source.node for source in found[index].inputs}
        return dict(sorted(found.items()))

    def output(self, place: int) -> _Part:
        """The box of a new state."""
        name = f"{self.cell.states[place].name}′"
        last = self.cell.outputs[place]
        if self.nodes[last].op == "add" and not self.nodes[last].name:
            terms, inside = self.terms(last)
            return _Part(Box("output", name, "+", inside), terms)
        return _Part(Box("output", name, "", ()), (_Input(last),))

    def part(self, index: int) -> _Part:
        """The box that ends in this node."""
        node = self.nodes[index]
        if node.op in ("input", "state"):
            return _Part(Box("source", node.name or "", "", (index,)), ())
        if node.op == "add" and not self.constants(node):
            terms, inside = self.terms(index)
            return _Part(Box("sum", node.name or "", "+", inside), terms)
        return self.gate(index) or self.linear(index) or self.operation(index)

    def terms(self, index: int) -> tuple[tuple[_Input, ...], tuple[int, ...]]:
        """What a sum adds up, sums without a name opened, and the nodes of all these sums."""
        terms, inside, stack = list[_Input](), [index], list(reversed(self.nodes[index].args))
        while stack:
            term = stack.pop()
            node = self.nodes[term]
            if node.op == "add" and not node.name and not self.constants(node):
                inside.append(term)
                stack.extend(reversed(node.args))
            else:
                terms.append(_Input(term))
        return tuple(terms), tuple(inside)

    def gate(self, index: int) -> _Part | None:
        """A squashed product times a value, when nothing else reads them."""
        node = self.nodes[index]
        if node.op != "mul":
            return None
        for squash, value in (node.args, node.args[::-1]):
            product = self.product(squash, _SQUASHES) if self.own(squash) else None
            if product is not None:
                return self.gated(index, squash, product, value)
        return None

    def gated(self, index: int, squash: int, product: int, value: int) -> _Part:
        names = [self.nodes[i].name for i in (index, squash, product)]
        inside = [index, squash, product]
        formula = f"{_sign(self.nodes[squash])}W ⊙"
        after = self.nodes[value]
        if after.op in UNARY and self.own(value) and not after.name:
            inside.append(value)
            formula, value = f"{formula} {_sign(after)}", after.args[0]
        inputs = (*self.weighted(product), _Input(value))
        name = next(filter(None, names), "")
        return _Part(Box("gate", name, formula, tuple(inside)), inputs)

    def linear(self, index: int) -> _Part | None:
        """A product, alone or with the one function of it."""
        node = self.nodes[index]
        if node.op == "linear":
            box = Box("linear", node.name or "", "W", (index,))
            return _Part(box, self.weighted(index))
        product = self.product(index, (*UNARY, *ROWWISE))
        if product is None:
            return None
        name = node.name or self.nodes[product].name or ""
        box = Box("linear", name, f"{_sign(node)} W", (index, product))
        return _Part(box, self.weighted(product))

    def operation(self, index: int) -> _Part:
        """A box of one node; numbers that it reads are in its formula."""
        node = self.nodes[index]
        numbers = self.constants(node)
        formula = _sign(node)
        if node.op in BINARY:
            left, right = (numbers.get(arg, "") for arg in node.args)
            formula = f"{left} {formula} {right}".strip()
        inputs = tuple(_Input(arg) for arg in node.args if arg not in numbers)
        return _Part(Box("op", node.name or "", formula, (index, *numbers)), inputs)

    def product(self, index: int, functions: tuple[str, ...]) -> int | None:
        """The linear that such a function is of, when nothing else reads either."""
        node = self.nodes[index]
        if node.op not in functions or not self.own(node.args[0]):
            return None
        return node.args[0] if self.nodes[node.args[0]].op == "linear" else None

    def own(self, index: int) -> bool:
        """Whether one node reads this one."""
        return self.uses[index] == 1

    def weighted(self, product: int) -> tuple[_Input, ...]:
        return tuple(_Input(arg, weighted=True) for arg in self.nodes[product].args)

    def constants(self, node: Node) -> dict[int, str]:
        """The numbers that a node reads, by index."""
        read: Iterator[tuple[int, Node]] = ((arg, self.nodes[arg]) for arg in node.args)
        return {arg: format_number(each.value or 0.0) for arg, each in read if each.op == "const"}


def _sign(node: Node) -> str:
    if node.op == "const":
        return format_number(node.value or 0.0)
    return _SIGNS.get(node.op, node.op)
