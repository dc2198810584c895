"""The Program: what a backend runs at every time step, forward or backward, in SSA form.

Its nodes are those of `node`, less the row-wise ops, and with

    read          row t (value 0) or t - 1 (value -1) of the sequence `param`; before the
                  first step, the initial state of that name
    carry         what the step before left under the name `param`
    row_mean      the mean over the H values of a row, repeated H times
    muladd        a * b + c
    OP_grad       (g, saved) -> g * f'(saved), of every unary op
    pullback      sum over i of args[i] @ W_i, W_i the columns of a linear's weight that belong to
                  one of its sources (`blocks`: parameter and source position); with `bias`, the
                  last argument is a plain summand

Every value is (B, H), but for x and its gradient, (B, I), and numbers, which repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .node import Node
from .ops import BINARY
from .text import format_number


@dataclass(frozen=True)
class Product:
    """One wide matrix product: a source times the weights of several linears, side by side."""

    source: int
    linears: tuple[int, ...]
    positions: tuple[int, ...]
    """Where the source stands among the sources of each linear."""


@dataclass(frozen=True)
class Sum:
    """A parameter's gradient: a sum over all B*T rows.

    With a source, the weight's columns for `position`: node^T @ source; without, the plain sum.
    """

    param: str
    node: int
    source: int | None = None
    position: int = 0


@dataclass(frozen=True)
class Program:
    """One pass over a sequence."""

    name: str
    input_name: str
    """The sequence that is x."""
    input_size: int
    hidden_size: int
    reverse: bool
    widths: Mapping[str, tuple[int, ...]]
    """The widths of the sources of each linear, which share the columns of its weight."""
    nodes: tuple[Node, ...]
    before: frozenset[int]
    """Nodes that depend on x alone: computed before the loop, for all steps at once."""
    after: frozenset[int]
    """Nodes that no later step depends on: computed after the loop, for all steps at once."""
    products: tuple[Product, ...]
    """Every linear's products, in the order they can run."""
    carries: tuple[tuple[str, int], ...]
    """What each carry becomes."""
    writes: tuple[tuple[str, int], ...]
    """Sequences written, row t at step t."""
    sums: tuple[Sum, ...]

    def __str__(self) -> str:
        return _write(self)


def _write(program: Program) -> str:
    """A listing: what runs before the loop, in each step, after it, and what is summed."""
    way = "backward, last step first" if program.reverse else "forward"
    sizes = f"I = {program.input_size}, H = {program.hidden_size}"
    lines = [f"program {program.name}: {way}; {sizes}"]
    listing = _Listing(program)
    indices = range(len(program.nodes))
    outside = program.before | program.after
    lines += listing.section("before the loop", [i for i in indices if i in program.before])
    lines += listing.section("each step", [i for i in indices if i not in outside])
    lines += [f"    carry {name} <- {listing.name(node)}" for name, node in program.carries]
    lines += [f"    write {name}[t] <- {listing.name(node)}" for name, node in program.writes]
    lines += listing.section("after the loop", [i for i in indices if i in program.after])
    lines += [listing.sum(item) for item in program.sums]
    if program.products:
        lines += ["  products", *map(listing.product, program.products)]
    return "\n".join(lines)


class _Listing:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = _unique_names(program.nodes)

    def name(self, index: int) -> str:
        return self.names[index]

    def section(self, title: str, indices: list[int]) -> list[str]:
        lines = [
            f"    {self.names[i]} = {self.expression(self.program.nodes[i])}"
            for i in indices
            if self.program.nodes[i].op != "const"
        ]
        return [f"  {title}", *lines] if lines else []

    def expression(self, node: Node) -> str:
        args = [self.names[arg] for arg in node.args]
        match node.op:
            case "read":
                return f"{node.param}[t{' - 1' if node.value else ''}]"
            case "carry" | "scalar" | "vector":
                return f"{node.op} {node.param}"
            case "linear":
                bias = f" + {node.param}.bias" if node.bias else ""
                return f"{node.param}.weight @ [{'; '.join(args)}]{bias}"
            case "pullback":
                blocks = zip(args, node.blocks, strict=False)
                terms = [f"{arg} @ {param}.weight[{at}]" for arg, (param, at) in blocks]
                return " + ".join(args[len(node.blocks) :] + terms)
            case "add" | "sub" | "mul" | "div":
                return f"{args[0]} {BINARY[node.op].symbol} {args[1]}"
            case "muladd":
                return f"{args[0]} * {args[1]} + {args[2]}"
            case _:
                return f"{node.op}({', '.join(args)})"

    def sum(self, item: Sum) -> str:
        node = self.names[item.node]
        if item.source is None:
            return f"    grad {item.param} <- sum of {node}"
        source = self.names[item.source]
        return f"    grad {item.param}[{item.position}] <- sum of {node}^T @ {source}"

    def product(self, product: Product) -> str:
        linears = ", ".join(str(self.program.nodes[i].param) for i in product.linears)
        when = ", before the loop" if product.source in self.program.before else ""
        return f"    {self.names[product.source]} -> {linears}{when}"


def _unique_names(nodes: tuple[Node, ...]) -> list[str]:
    """A name per node: its own where nobody else has it, else numbered."""
    names: list[str] = []
    taken: set[str] = set()
    for index, node in enumerate(nodes):
        if node.op == "const" and node.value is not None:
            names.append(format_number(node.value))
            continue
        name = node.name or f"v{index}"
        names.append(name if name not in taken else f"{name}_{index}")
        taken.add(names[-1])
    return names
