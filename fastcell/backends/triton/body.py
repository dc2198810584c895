"""A step as statements: one for each value that is named or read twice, the rest written inline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from ...node import Node
from .expression import Term, apply, number
from .names import Names
from .places import Places
from .plan import Plan

_INLINE = 70
"""The longest expression, in characters, that stands within another one."""
_TERMS = 2
"""The most products that stand in one expression; more are added up one by one."""


class Body(ABC):
    """Writes a plan's nodes, in order; what a strategy does its own way is abstract."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan, self.names = plan, names
        self.places = Places(plan, names)
        self.terms: dict[int, Term] = {}
        self.lines: list[str] = []
        self.uses = Counter(plan.results())
        for index in plan.computed:
            self.uses.update(plan.operands(index))

    @abstractmethod
    def carried(self, index: int) -> Term:
        """What the step before left."""

    @abstractmethod
    def product(self, index: int) -> list[Term]:
        """The products of a linear or a pullback, as summands."""

    @abstractmethod
    def mean(self, index: int) -> Term:
        """The mean over the row of what the node reads."""

    @abstractmethod
    def full(self, index: int) -> str:
        """The value in every row and column of the tile."""

    def fill(self, index: int, width: str) -> str:
        """The value, repeated over ROWS by `width` where it is a number or a vector."""
        text = self.terms[index].text
        if self.plan.nodes[index].op == "const":
            return f"tl.full([ROWS, {width}], {text}, tl.float32)"
        if self.plan.is_narrow(index):
            return f"tl.broadcast_to({text}, ROWS, {width})"
        return text

    def write(self, indices: Sequence[int]) -> None:
        """Statements for these nodes."""
        for index in indices:
            term = self.expression(index)
            if self.plan.nodes[index].op == "const":
                self.terms[index] = term
            elif self.may_inline(index) and len(term.text) <= _INLINE:
                self.terms[index] = term
                continue
            else:
                self.assign(index, term)
            for place in self.stores(index):
                self.lines.append(f"tl.store({place}, {self.full(index)}, inside)")

    def stores(self, index: int) -> list[str]:
        """Where the value is written, once it is there."""
        return self.places.written(index)

    def assign(self, index: int, term: Term) -> None:
        if not term.text.isidentifier():
            self.lines.append(f"{self.variable(index)} = {term.text}")
            term = Term(self.variable(index))
        self.terms[index] = term

    def variable(self, index: int) -> str:
        """The name of a node's value."""
        return self.names.named(f"node {index}", self.plan.nodes[index].name or f"v{index}")

    def may_inline(self, index: int) -> bool:
        """Whether the value's only reader may have the expression itself, if it isn't long."""
        node = self.plan.nodes[index]
        once = self.uses[index] == 1 and index not in self.plan.results()
        return once and node.name is None

    def expression(self, index: int) -> Term:
        node = self.plan.nodes[index]
        match node.op:
            case "const":
                return number(float(node.value or 0.0))
            case "read":
                return Term(f"load({self.places.read(index)} + here, inside)")
            case "carry":
                return self.carried(index)
            case "scalar" | "vector":
                return Term(self.places.parameter(str(node.param)))
            case "linear" | "pullback":
                return self.sum(index)
            case "row_mean":
                return self.mean(index)
        return apply(node.op, self.arguments(node))

    def arguments(self, node: Node) -> list[Term]:
        """The operands of an elementwise op; numbers among themselves need to be tensors."""
        numbers = [self.plan.nodes[arg].op == "const" for arg in node.args]
        terms = [self.terms[arg] for arg in node.args]
        if all(numbers):
            return [Term(f"tl.full([1, 1], {term.text}, tl.float32)") for term in terms]
        return terms

    def sum(self, index: int) -> Term:
        """A linear, or a pullback: a first summand, if any, and products."""
        base = self.plan.base(index)
        terms = [] if base is None else [self.terms[base]]
        if self.plan.nodes[index].op == "linear":
            terms += self.summands(index)
        terms += self.product(index)
        if len(terms) > _TERMS:
            return self.one_by_one(index, terms)
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def summands(self, index: int) -> list[Term]:
        """What a linear's products are added to: x's part, which has the bias, or the bias."""
        if index in self.plan.projected:
            place = self.places.slot("projected", self.plan.projected, index)
            return [Term(f"load({place}, inside)")]
        node = self.plan.nodes[index]
        return [Term(self.places.parameter(f"{node.param}.bias"))] if node.bias else []

    def one_by_one(self, index: int, terms: Sequence[Term]) -> Term:
        variable = self.variable(index)
        self.lines.append(f"{variable} = {terms[0].text}")
        self.lines += [f"{variable} += {term.text}" for term in terms[1:]]
        return Term(variable)
