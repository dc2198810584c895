"""The derivative: reverse mode on the graph of one step, once, for every backend.

Gradients are nodes of the same graph, so what the backward pass reads of the forward pass is just
an edge; `partition` then decides which of those values are kept and which are computed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .node import Builder, Node
from .ops import UNARY, Reads


@dataclass(frozen=True, order=True)
class _Pull:
    """The gradient of a linear, on its way through the weight of one of its sources."""

    linear: int
    position: int
    gradient: int


@dataclass
class _Terms:
    """What is added up to one node's gradient."""

    plus: list[int] = field(default_factory=list)
    minus: list[int] = field(default_factory=list)
    pulls: list[_Pull] = field(default_factory=list)


def differentiate(builder: Builder, seeds: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Node -> node of dL/d(node), for every node that L depends on.

    `seeds` gives (node, its gradient) for each output; an output's gradients add up. The nodes up
    to the last output are differentiated; those after it are the seeds' own.
    """
    reverse = _Reverse(builder)
    for node, gradient in seeds:
        reverse.terms[node].plus.append(gradient)
    for index in reversed(range(1 + max(node for node, _ in seeds))):
        if index in reverse.terms:
            reverse.visit(index)
    return reverse.totals


class _Reverse:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.terms: defaultdict[int, _Terms] = defaultdict(_Terms)
        self.totals: dict[int, int] = {}

    def visit(self, index: int) -> None:
        """All users are done: add up, and pass on to the arguments."""
        total = self.totals[index] = self._total(self.terms[index])
        node = self.builder.nodes[index]
        if node.name:
            self.builder.rename(total, f"d_{node.name}")
        if node.op == "linear":
            for position, source in enumerate(node.args):
                self.terms[source].pulls.append(_Pull(index, position, total))
        elif node.op in UNARY:
            self.terms[node.args[0]].plus.append(self._unary(index, total))
        elif node.args:
            _RULES[node.op](self, index, total, *node.args)

    def new(self, op: str, *args: int) -> int:
        return self.builder.add(Node(op, args))

    def _total(self, terms: _Terms) -> int:
        total: int | None = None
        for term in terms.plus:
            total = term if total is None else self.new("add", total, term)
        for term in terms.minus:
            total = self.new("neg", term) if total is None else self.new("sub", total, term)
        if terms.pulls:
            total = self._pullback(sorted(terms.pulls), total)
        assert total is not None
        return total

    def _pullback(self, pulls: list[_Pull], base: int | None) -> int:
        """One wide product for all linears that read the node, in the order of their weights."""
        args = tuple(pull.gradient for pull in pulls)
        blocks = tuple(
            (str(self.builder.nodes[pull.linear].param), pull.position) for pull in pulls
        )
        if base is not None:
            args = (*args, base)
        return self.builder.add(Node("pullback", args, blocks=blocks, bias=base is not None))

    def _unary(self, index: int, g: int) -> int:
        node = self.builder.nodes[index]
        reads = UNARY[node.op].reads
        if reads is Reads.NOTHING:
            return self.new(node.op, g)
        return self.new(f"{node.op}_grad", g, index if reads is Reads.OUTPUT else node.args[0])

    def add(self, _: int, g: int, a: int, b: int) -> None:
        self.terms[a].plus.append(g)
        self.terms[b].plus.append(g)

    def sub(self, _: int, g: int, a: int, b: int) -> None:
        self.terms[a].plus.append(g)
        self.terms[b].minus.append(g)

    def mul(self, _: int, g: int, a: int, b: int) -> None:
        self.terms[a].plus.append(self.new("mul", g, b))
        self.terms[b].plus.append(self.new("mul", g, a))

    def div(self, y: int, g: int, a: int, b: int) -> None:
        scaled = self.new("div", g, b)
        self.terms[a].plus.append(scaled)
        self.terms[b].minus.append(self.new("mul", scaled, y))

    def row_mean(self, _: int, g: int, a: int) -> None:
        self.terms[a].plus.append(self.new("row_mean", g))


_RULES: dict[str, Callable[..., None]] = {
    "add": _Reverse.add,
    "sub": _Reverse.sub,
    "mul": _Reverse.mul,
    "div": _Reverse.div,
    "row_mean": _Reverse.row_mean,
}
