"""A cell's graph read as a cell of the search space: which products are gates, which sum the Add.

First `_Terms`, the distinct values of the cell with sums and products flat; then the ways to take
the flat products apart into three gates, of which any will do: they differ in the order of factors.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from .errors import CodeError
from .ir import Cell
from .node import Node
from .space_cell import ADD, Fields, G

_MAX_NODES = 1000
"""More than a cell of the space has, however it is written; bounds the work on any other."""


class _Product(NamedTuple):
    """One gate, or several multiplied: the sigmoids, and the one factor that is none."""

    sigmoids: frozenset[int]
    value: int


class _Gates(NamedTuple):
    """A gate for each sigmoid: what else it multiplies, and the products that it completes."""

    inner: Mapping[int, int | None]
    """The sigmoid of the gate that is its value; None when its value is no gate."""
    values: Mapping[int, int]
    """The other values, by sigmoid."""
    last: Mapping[_Product, int]
    """The outermost sigmoid of each product."""


def read(cell: Cell) -> Fields:
    """The fields of a functional key of the cell, not yet the smallest (see `space`).

    Raises CodeError when it is no cell of the space.
    """
    terms = _Terms(cell)
    products, sums = terms.inside()
    gates = terms.arranged(products.values())
    slots = terms.slots(gates)
    numbers = {term: term for term in range(G + 1)}
    numbers |= {term: 4 + slots[gates.last[own]] for term, own in products.items()}
    numbers |= dict.fromkeys(sums, ADD)
    by_slot = sorted(slots, key=lambda sigmoid: slots[sigmoid])
    contexts = tuple(_mask(numbers[arg] for arg in terms.contexts(sigmoid)) for sigmoid in by_slot)
    values = tuple(
        numbers[terms.under_tanh(gates.values[sigmoid])] if inner is None else 4 + slots[inner]
        for sigmoid, inner in ((sigmoid, gates.inner[sigmoid]) for sigmoid in by_slot)
    )
    add = _mask(numbers[term] for total in sums for term in terms.counts(total, "add"))
    return Fields(contexts, values, *terms.sums(numbers, add))


def outside(cell: Cell, found: str) -> CodeError:
    """The refusal of a cell that is not in the space."""
    return CodeError(
        f"cell '{cell.name}' has no code: expected two states, three gates and sums, as in"
        f" fastcell.space, found {found}"
    )


class _Terms:
    """The distinct values of a cell; a term is its index in `table`.

    The first four are x, h, c and g, numbered as SOURCES. The others:

        ("linear", (term, ...), node)      ("sigmoid", linear)      ("tanh", term)
        ("add" or "mul", frozenset of (term, how often))
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.table: list[tuple[Any, ...]] = [("x",), ("h",), ("c",), ("g",)]
        self.index: dict[tuple[Any, ...], int] = {}
        self.check_size()
        self.check_linears()
        self.of_node = list(range(len(cell.sources)))
        for number, node in enumerate(cell.nodes[3:], start=3):
            self.of_node.append(self.term(number, node))
        self.outputs = [self.counts(self.of_node[output], "add") for output in cell.outputs]

    def error(self, found: str) -> CodeError:
        return outside(self.cell, found)

    def check_size(self) -> None:
        if len(self.cell.states) != 2:
            raise self.error(f"{len(self.cell.states)} state(s)")
        if len(self.cell.nodes) > _MAX_NODES:
            raise self.error(f"{len(self.cell.nodes):,} values")

    def check_linears(self) -> None:
        """Each has a bias and one reader: no two gates share it, nor a gate and g."""
        reads = Counter(arg for node in self.cell.nodes for arg in node.args)
        for number, node in enumerate(self.cell.nodes):
            if node.op == "linear" and (reads[number] > 1 or not node.bias):
                raise self.error(
                    f"linear '{node.param}' {'read twice' if node.bias else 'without a bias'}"
                )

    def term(self, number: int, node: Node) -> int:
        args = [self.of_node[arg] for arg in node.args]
        match node.op:
            case "linear":
                return self.intern("linear", tuple(sorted(args)), number)
            case "tanh" if self.table[args[0]][0] == "linear":
                return self.candidate(args[0])
            case "sigmoid" | "tanh":
                return self.intern(node.op, args[0])
            case "add" | "mul":
                total = self.counts(args[0], node.op) + self.counts(args[1], node.op)
                return self.intern(node.op, frozenset(total.items()))
        raise self.error(f"'{node.op}' at {node.name or node.param or f'value {number}'}")

    def intern(self, *term: Any) -> int:
        number = self.index.setdefault(term, len(self.table))
        if number == len(self.table):
            self.table.append(term)
        return number

    def candidate(self, linear: int) -> int:
        """g, which must be the one tanh(linear(x, h))."""
        if self.table[linear][1] != (0, 1):
            raise self.error("a tanh(linear(...)) of something else than x and h")
        if self.table[G] != ("g",):
            raise self.error("a second tanh(linear(x, h))")
        self.table[G] = ("g", linear)
        return G

    def counts(self, term: int, op: str) -> Counter[int]:
        """How often each operand is in the term, taken as a flat sum or product."""
        kind, *rest = self.table[term]
        return Counter(dict(rest[0])) if kind == op else Counter([term])

    def inside(self) -> tuple[dict[int, _Product], list[int]]:
        """The products that stand as gates, and the sums that gates read."""
        products: dict[int, _Product] = {}
        sums: list[int] = []
        pending = [term for output in self.outputs for term in output]
        while pending:
            term = pending.pop()
            kind = self.table[term][0]
            if term <= G or term in products or term in sums:
                continue
            if kind == "mul":
                own = products[term] = self.product(term)
                reads = [self.contexts(sigmoid) for sigmoid in own.sigmoids]
                pending += [self.under_tanh(own.value), *(arg for args in reads for arg in args)]
            elif kind == "add":
                sums.append(term)
                counts = self.counts(term, "add")
                if max(counts.values()) > 1:
                    raise self.error("a sum that gates read with something twice in it")
                pending += counts
            else:
                raise self.error(f"a {kind} outside a gate")
        if len(sums) > 1:
            raise self.error(f"{len(sums)} different sums that gates read, where one Add is")
        return products, sums

    def product(self, term: int) -> _Product:
        factors = self.counts(term, "mul")
        sigmoids = frozenset(f for f in factors if self.table[f][0] == "sigmoid")
        others = [factor for factor in factors if factor not in sigmoids]
        if not sigmoids or len(others) != 1 or max(factors.values()) > 1:
            raise self.error("a product that is not sigmoids times one value")
        return _Product(sigmoids, others[0])

    def contexts(self, sigmoid: int) -> tuple[int, ...]:
        linear = self.table[self.table[sigmoid][1]]
        if linear[0] != "linear" or len(linear[1]) != 2:
            raise self.error("a sigmoid of something else than a linear of two contexts")
        args: tuple[int, ...] = linear[1]
        return args

    def under_tanh(self, term: int) -> int:
        kind, *rest = self.table[term]
        return int(rest[0]) if kind == "tanh" else term

    def arranged(self, products: Collection[_Product]) -> _Gates:
        """Any way to make all products out of one gate for each of three sigmoids."""
        sigmoids = sorted({sigmoid for own in products for sigmoid in own.sigmoids})
        if len(sigmoids) != 3:
            raise self.error(f"{len(sigmoids)} gate(s)")
        for inner in product((None, *sigmoids), repeat=3):
            gates = _arrange(dict(zip(sigmoids, inner, strict=True)), products)
            if gates:
                return gates
        raise self.error("gates that share a sigmoid")

    def slots(self, gates: _Gates) -> dict[int, int]:
        """The place of each sigmoid's gate: the tanh gate is the last."""
        squashed = [s for s, value in gates.values.items() if self.table[value][0] == "tanh"]
        if len(squashed) != 1:
            raise self.error(f"{len(squashed)} gates with a tanh on their value, where one is")
        others = sorted(gates.inner.keys() - squashed)
        return {sigmoid: slot for slot, sigmoid in enumerate([*others, *squashed])}

    def sums(self, numbers: Mapping[int, int], add: int) -> tuple[int, int, int]:
        """The masks of Add, h' and c' of a functional key; `add` is 0 when no gate reads one."""
        once, twice = [], []
        for counts in self.outputs:
            if max(counts.values()) > 2:
                raise self.error("a sum with something more than twice in it")
            once.append(_mask(numbers[term] for term in counts if counts[term] == 1))
            twice.append(_mask(numbers[term] for term in counts if counts[term] == 2))
        add = add or twice[0] | twice[1]
        for one, two in zip(once, twice, strict=True):
            if two and (two & ~add or add & ~(one | two)):
                raise self.error(
                    "sums with something twice in them, which one Add does not explain"
                )
        h, c = (
            1 << ADD | two | one & ~add if two else one
            for one, two in zip(once, twice, strict=True)
        )
        return add, h, c


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _arrange(inner: dict[int, int | None], products: Collection[_Product]) -> _Gates | None:
    """The gates with these links, when the products are all theirs and leave none of them out."""
    chains = {sigmoid: _chain(inner, sigmoid) for sigmoid in inner}
    outermost = {frozenset(chain): sigmoid for sigmoid, chain in chains.items()}
    last: dict[_Product, int] = {}
    values: dict[int, int] = {}
    for own in products:
        sigmoid = outermost.get(own.sigmoids)
        if sigmoid is None or values.setdefault(chains[sigmoid][-1], own.value) != own.value:
            return None
        last[own] = sigmoid
    used = {*last.values(), *inner.values()}
    return _Gates(inner, values, last) if used >= inner.keys() else None


def _chain(inner: Mapping[int, int | None], sigmoid: int) -> list[int]:
    """The sigmoid and those of its value, the value's value and so on; cut short in a circle."""
    chain, following = [sigmoid], inner[sigmoid]
    while following is not None and following not in chain:
        chain.append(following)
        following = inner[following]
    return chain
