"""Lowering: a Cell with sizes becomes two Programs, forward and backward.

expand       row-wise ops in terms of elementwise ones and row_mean
differentiate, then choose what the forward pass keeps for the backward pass
extract      each Program's own nodes, with reads and carries in place of the cell's sources
fuse         a * b + c where the product has no other use
hoist        products with what depends on x alone move before the loop, for all steps at once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from .derivative import differentiate
from .ir import Cell
from .node import Builder, Node
from .ops import ROWWISE
from .partition import kept_values
from .program import Product, Program, Sum

_EVERYWHERE = frozenset({"const", "scalar", "vector"})


def lower_forward(
    cell: Cell, input_size: int, hidden_size: int, all_states: bool = False
) -> Program:
    """The forward Program; its output is the first state's sequence, or that of all states.

    Raises ShapeError when the sizes do not fit the cell.
    """
    draft = _graph(cell, all_states).forward()
    return _finish(draft, _Sizes(cell, input_size, hidden_size), reverse=False)


def lower_backward(
    cell: Cell,
    input_size: int,
    hidden_size: int,
    input_gradient: bool = True,
    all_states: bool = False,
) -> Program:
    """The backward Program; without `input_gradient` it leaves the gradient of x out.

    Raises ShapeError when the sizes do not fit the cell.
    """
    draft = _graph(cell, all_states).backward(input_gradient)
    return _finish(draft, _Sizes(cell, input_size, hidden_size), reverse=True)


@lru_cache(maxsize=512)
def saved_sequences(cell: Cell, all_states: bool = False) -> tuple[str, ...]:
    """The sequences (T, B, H) that backward reads, beside x and those that are the output."""
    graph = _graph(cell, all_states)
    states = zip(graph.sources[2:], graph.kept_states[1:], strict=True)
    kept_states = [name for name, kept in states if kept and not all_states]
    return (*kept_states, *graph.kept.values())


@dataclass
class _Draft:
    """A Program before fusing and hoisting: nodes, and what is wanted of them."""

    nodes: list[Node]
    carries: list[tuple[str, int]]
    writes: list[tuple[str, int]]
    sums: list[Sum]

    def roots(self) -> list[int]:
        pairs = [index for _, index in (*self.carries, *self.writes)]
        summed = [i for item in self.sums for i in (item.node, item.source) if i is not None]
        return pairs + summed

    def rewritten(self, nodes: list[Node], moved: dict[int, int]) -> _Draft:
        sums = [
            replace(s, node=moved[s.node], source=None if s.source is None else moved[s.source])
            for s in self.sums
        ]
        carries = [(name, moved[index]) for name, index in self.carries]
        return _Draft(nodes, carries, [(name, moved[index]) for name, index in self.writes], sums)


class _Expression:
    """A node with Python's operators, so that the op table's formulas build graph."""

    def __init__(self, builder: Builder, index: int) -> None:
        self.builder, self.index = builder, index

    def _with(self, op: str, other: object, swap: bool = False) -> _Expression:
        if not isinstance(other, _Expression):
            assert isinstance(other, int | float)
            other = _Expression(self.builder, self.builder.add(Node("const", value=float(other))))
        args = (other.index, self.index) if swap else (self.index, other.index)
        return _Expression(self.builder, self.builder.add(Node(op, args)))

    def __add__(self, other: object) -> _Expression:
        return self._with("add", other)

    def __sub__(self, other: object) -> _Expression:
        return self._with("sub", other)

    def __mul__(self, other: object) -> _Expression:
        return self._with("mul", other)


class _Algebra:
    """What a row-wise formula may call, as graph."""

    @staticmethod
    def row_mean(a: _Expression) -> _Expression:
        return _Expression(a.builder, a.builder.add(Node("row_mean", (a.index,))))

    @staticmethod
    def rsqrt(a: _Expression) -> _Expression:
        return _Expression(a.builder, a.builder.add(Node("rsqrt", (a.index,))))


@lru_cache(maxsize=512)
def _graph(cell: Cell, all_states: bool) -> _Graph:
    """What lowering does whatever the sizes."""
    return _Graph(cell, all_states)


def _expand(cell: Cell) -> tuple[Builder, list[int]]:
    """The cell's graph without row-wise ops, and where each of its nodes went."""
    builder, moved = Builder(), list[int]()
    for node in cell.nodes:
        args = tuple(moved[arg] for arg in node.args)
        if node.op in ROWWISE:
            formula = ROWWISE[node.op].forward(_Algebra, _Expression(builder, args[0]))
            moved.append(formula.index)
            if node.name:
                builder.rename(formula.index, node.name)
        else:
            moved.append(builder.add(replace(node, args=args)))
    return builder, moved


class _Graph:
    """The forward graph with its derivative, and the choice of what is kept between them."""

    def __init__(self, cell: Cell, all_states: bool) -> None:
        self.builder, moved = _expand(cell)
        self.all_states = all_states
        self.outputs = [moved[output] for output in cell.outputs]
        self.sources = [str(node.name) for node in cell.sources]
        self.forward_size = len(self.builder.nodes)
        seeds = list(zip(self.outputs, self._seeds(), strict=True))
        self.gradients = differentiate(self.builder, seeds)
        self.nodes = self.builder.nodes
        self.draft = _Draft(self.nodes, self._carries(), self._writes(), self._sums())
        self.kept_states, kept = self._choose()
        self.kept = {index: f"kept.{self._label(index)}" for index in sorted(kept)}

    def _label(self, index: int) -> str:
        return self.nodes[index].name or f"#{index}"

    def _seeds(self) -> list[int]:
        """The gradient of each new state: from the step after, and from the output if it is one."""
        seeds = [self.builder.add(Node("carry", param=f"grad.{n}")) for n in self.sources[1:]]
        for at, name in enumerate(self.sources[1:] if self.all_states else self.sources[1:2]):
            output = self.builder.add(Node("read", param=f"grad.{name}", value=0.0))
            seeds[at] = self.builder.add(Node("add", (seeds[at], output)))
        return seeds

    def _carries(self) -> list[tuple[str, int]]:
        zero = self.builder.add(Node("const", value=0.0))
        names = enumerate(self.sources[1:], start=1)
        return [(f"grad.{name}", self.gradients.get(index, zero)) for index, name in names]

    def _writes(self) -> list[tuple[str, int]]:
        return [(f"grad.{self.sources[0]}", self.gradients[0])] if 0 in self.gradients else []

    def _sums(self) -> list[Sum]:
        """Every parameter's gradient; a weight's comes apart by source."""
        sums: list[Sum] = []
        for index, node in enumerate(self.nodes[: self.forward_size]):
            gradient = self.gradients.get(index)
            if node.param is None or gradient is None:
                continue
            if node.op != "linear":
                sums.append(Sum(node.param, gradient))
                continue
            weights = enumerate(node.args)
            sums += [Sum(f"{node.param}.weight", gradient, arg, at) for at, arg in weights]
            if node.bias:
                sums.append(Sum(f"{node.param}.bias", gradient))
        return sums

    def _choose(self) -> tuple[list[bool], set[int]]:
        """A state that the derivative can reach is kept, and so is its new value: one sequence."""
        needed = self._needed()
        reach = _ancestors(self.nodes, needed, stop="linear")
        states = range(1, len(self.sources))
        kept_states = [state == 1 or state in reach for state in states]
        free = {i for i in range(self.forward_size) if self.nodes[i].op in _EVERYWHERE}
        free |= {0, *states}
        free |= {out for out, keep in zip(self.outputs, kept_states, strict=True) if keep}
        return kept_states, kept_values(self.nodes, needed, frozenset(free))

    def _needed(self) -> set[int]:
        """Forward nodes that the derivative reads."""
        backward = _ancestors(self.nodes, self.draft.roots(), above=self.forward_size)
        read = {arg for index in backward for arg in self.nodes[index].args}
        read |= set(self.draft.roots())
        return {index for index in read if index < self.forward_size}

    def forward(self) -> _Draft:
        names = self.sources[1:]
        carries = list(zip(names, self.outputs, strict=True))
        writes = carries + [(name, index) for index, name in self.kept.items()]
        leaves = {0: Node("read", name=self.sources[0], param=self.sources[0], value=0.0)}
        for index, name in enumerate(names, start=1):
            leaves[index] = Node("carry", name=name, param=name)
        return _extract(_Draft(self.nodes, carries, writes, []), leaves)

    def backward(self, input_gradient: bool) -> _Draft:
        draft = self.draft if input_gradient else replace(self.draft, writes=[])
        leaves = {i: self._read(self.nodes[i].name, name, 0.0) for i, name in self.kept.items()}
        for name, output, keep in zip(
            self.sources[1:], self.outputs, self.kept_states, strict=True
        ):
            if keep:
                leaves.setdefault(output, self._read(self.nodes[output].name, name, 0.0))
        leaves[0] = self._read(self.sources[0], self.sources[0], 0.0)
        for index, name in enumerate(self.sources[1:], start=1):
            leaves[index] = self._read(name, name, -1.0)
        return _extract(draft, leaves)

    @staticmethod
    def _read(name: str | None, sequence: str, shift: float) -> Node:
        return Node("read", name=name, param=sequence, value=shift)


def _ancestors(
    nodes: Sequence[Node], roots: Iterable[int], above: int = 0, stop: str = ""
) -> set[int]:
    """Everything the roots depend on, themselves included; not below `above`, nor past `stop`."""
    found, stack = set[int](), [root for root in roots if root >= above]
    while stack:
        index = stack.pop()
        if index not in found:
            found.add(index)
            if nodes[index].op != stop:
                stack.extend(arg for arg in nodes[index].args if arg >= above)
    return found


def _extract(draft: _Draft, leaves: dict[int, Node]) -> _Draft:
    """The nodes that the draft's roots need, `leaves` standing in for what is already there."""
    nodes = [leaves.get(i, node) for i, node in enumerate(draft.nodes)]
    builder, moved = Builder(), dict[int, int]()
    for index in sorted(_ancestors(nodes, draft.roots())):
        node = nodes[index]
        moved[index] = builder.add(replace(node, args=tuple(moved[arg] for arg in node.args)))
    return draft.rewritten(builder.nodes, moved)


def _fuse(draft: _Draft) -> _Draft:
    """mul, then add: one pass over memory instead of two, where the product has no other use."""
    uses = Counter(arg for node in draft.nodes for arg in node.args)
    uses.update(draft.roots())
    fused: dict[int, tuple[int, int]] = {}
    for index, node in enumerate(draft.nodes):
        if node.op == "add":
            for product, rest in (node.args, node.args[::-1]):
                if draft.nodes[product].op == "mul" and uses[product] == 1:
                    fused[index] = (product, rest)
                    break
    dropped = {product for product, _ in fused.values()}
    nodes, moved = list[Node](), dict[int, int]()
    for index, node in enumerate(draft.nodes):
        if index in dropped:
            continue
        if index in fused:
            product, rest = fused[index]
            node = replace(node, op="muladd", args=(*draft.nodes[product].args, rest))
        moved[index] = len(nodes)
        nodes.append(replace(node, args=tuple(moved[arg] for arg in node.args)))
    return draft.rewritten(nodes, moved)


@dataclass(frozen=True)
class _Sizes:
    cell: Cell
    input_size: int
    hidden_size: int

    def __post_init__(self) -> None:
        self.cell.check_sizes(self.input_size, self.hidden_size)

    def widths(self) -> dict[str, tuple[int, ...]]:
        sizes = (self.input_size, self.hidden_size)
        linears = [node for node in self.cell.nodes if node.op == "linear"]
        return {str(node.param): tuple(self.cell.source_widths(node, *sizes)) for node in linears}


def _finish(draft: _Draft, sizes: _Sizes, reverse: bool) -> Program:
    draft = _fuse(draft)
    before = _hoistable(draft.nodes)
    return Program(
        name=sizes.cell.name,
        input_name=str(sizes.cell.nodes[0].name),
        input_size=sizes.input_size,
        hidden_size=sizes.hidden_size,
        reverse=reverse,
        widths=sizes.widths(),
        nodes=tuple(draft.nodes),
        before=before,
        after=_postponable(draft),
        products=tuple(_products(draft.nodes, before)),
        carries=tuple(draft.carries),
        writes=tuple(draft.writes),
        sums=tuple(draft.sums),
    )


def _hoistable(nodes: Sequence[Node]) -> frozenset[int]:
    """x, and what a product reads that depends on x alone; a parameter is there anyway."""
    fixed = set[int]()
    for index, node in enumerate(nodes):
        is_input = node.op == "read" and node.value == 0.0 and index == 0
        elementwise = node.args and node.op not in ("linear", "pullback")
        if is_input or node.op in _EVERYWHERE or (elementwise and fixed.issuperset(node.args)):
            fixed.add(index)
    read = {arg for node in nodes if node.op == "linear" for arg in node.args}
    moved = _ancestors(nodes, read & fixed)
    return frozenset(index for index in moved if nodes[index].op not in _EVERYWHERE)


def _postponable(draft: _Draft) -> frozenset[int]:
    """Products that are only written: the gradient of x through the weights."""
    used = {arg for node in draft.nodes for arg in node.args} | {i for _, i in draft.carries}
    used |= {item.node for item in draft.sums}
    written = {index for _, index in draft.writes} - used
    return frozenset(index for index in written if draft.nodes[index].op == "pullback")


def _products(nodes: Sequence[Node], before: frozenset[int]) -> Iterable[Product]:
    """The linears that read the same source, neighbours in a row, share one product."""
    linears = [index for index, node in enumerate(nodes) if node.op == "linear"]
    linears.sort(key=lambda linear: before.isdisjoint(nodes[linear].args))
    readers: dict[int, list[tuple[int, int]]] = {}
    for linear in linears:
        for position, source in enumerate(nodes[linear].args):
            readers.setdefault(source, []).append((linear, position))
    for source in sorted(readers, key=lambda source: (source not in before, source)):
        run: list[tuple[int, int]] = []
        for linear, position in readers[source]:
            if run and linears.index(linear) != linears.index(run[-1][0]) + 1:
                yield _product(source, run)
                run = []
            run.append((linear, position))
        yield _product(source, run)


def _product(source: int, run: list[tuple[int, int]]) -> Product:
    linears, positions = zip(*run, strict=True)
    return Product(source, linears, positions)
