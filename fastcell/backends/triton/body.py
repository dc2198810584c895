"""A step as statements: one for each value that is named or read twice, the rest written inline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from ...node import Node
from .expression import Term, apply, number
from .names import Names
from .plan import Block, Plan

_INLINE = 70
"""The longest expression, in characters, that stands within another one."""
_TERMS = 2
"""The most products that stand in one expression; more are added up one by one."""


class Body(ABC):
    """Writes a plan's nodes, in order; what a strategy does its own way is abstract."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan, self.names = plan, names
        self.terms: dict[int, Term] = {}
        self.lines: list[str] = []
        self.uses = Counter(plan.results())
        for index in plan.computed:
            self.uses.update(plan.operands(index))

    @abstractmethod
    def source(self, index: int) -> Term:
        """A value that comes from outside the step: read, carried, or a parameter."""

    @abstractmethod
    def projected(self, index: int) -> Term:
        """The part of a linear that is there before the loop: x's, or the bias."""

    @abstractmethod
    def product(self, factor: int, block: Block) -> Term:
        """A value times a block of weights."""

    @abstractmethod
    def mean(self, index: int) -> Term:
        """A value's mean over its row."""

    @abstractmethod
    def store(self, index: int) -> None:
        """Writes the value wherever it is wanted."""

    def write(self, indices: Sequence[int]) -> None:
        """Statements for these nodes."""
        for index in indices:
            if self.plan.nodes[index].op != "const":
                self.node(index)

    def node(self, index: int) -> None:
        term = self.expression(index)
        if self.may_inline(index) and len(term.text) <= _INLINE:
            self.terms[index] = term
        else:
            self.assign(index, term)
            self.store(index)

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

    def term(self, index: int) -> Term:
        """The value, for another expression."""
        node = self.plan.nodes[index]
        if node.op == "const":
            return number(float(node.value or 0.0))
        return self.terms[index]

    def expression(self, index: int) -> Term:
        node = self.plan.nodes[index]
        match node.op:
            case "read" | "carry" | "scalar" | "vector":
                return self.source(index)
            case "linear" | "pullback":
                return self.sum(index)
            case "row_mean":
                return self.mean(node.args[0])
        return apply(node.op, self.arguments(node))

    def arguments(self, node: Node) -> list[Term]:
        """The operands of an elementwise op; numbers among themselves need to be tensors."""
        numbers = [self.plan.nodes[arg].op == "const" for arg in node.args]
        terms = [self.term(arg) for arg in node.args]
        if all(numbers):
            return [Term(f"tl.full([1, 1], {term.text}, tl.float32)") for term in terms]
        return terms

    def sum(self, index: int) -> Term:
        """A linear, or a pullback: a first summand, if any, and products."""
        base = self.plan.base(index)
        terms = [] if base is None else [self.term(base)]
        if self.plan.nodes[index].op == "linear":
            terms += self.summands(index)
        terms += [self.product(factor, block) for block, factor in self.plan.inner(index)]
        if len(terms) > _TERMS:
            return self.one_by_one(index, terms)
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def summands(self, index: int) -> list[Term]:
        biased = self.plan.nodes[index].bias
        return [self.projected(index)] if index in self.plan.projected or biased else []

    def one_by_one(self, index: int, terms: Sequence[Term]) -> Term:
        variable = self.variable(index)
        self.lines.append(f"{variable} = {terms[0].text}")
        self.lines += [f"{variable} += {term.text}" for term in terms[1:]]
        return Term(variable)
