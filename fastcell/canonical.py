"""The key of a cell: 128 bits, equal for two cells exactly when they are the same architecture.

The same up to
    names       of the cell, its input, its states, its values and its parameters
    + and *     commutative and associative, through named partial results as well: with s = a + b,
                s + c is the sum of a, b and c whether or not s is used elsewhere
    order       of the statements, and of the sources of a `linear` (it permutes weight columns)

What counts: the order of the states, how many they are, every `linear`, `scalar` and `vector` as
a thing of its own (two with the same sources are not one shared), a bias or none, initial values
and numbers to the last bit, and how often a value is in a sum, a product or a `linear`.

No algebra beyond that: a - b is not a + -b, x + x not 2 * x, and 1 + (2 + x) not 3 + x.

Source: individualisation and refinement (McKay and Piperno 2014) in csrc/canon.h, BLAKE2b.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from hashlib import blake2b
from heapq import heappop, heappush

from .errors import KeyLimitError
from .node import PARAMETERS, Node

FORM = 1
"""Version of the canonical form. Stored keys depend on it: raise it with any change of the form."""

MAX_READS = 250_000
"""Operands that a cell may have once its sums and products are flat."""

MAX_STEPS = 200_000_000
"""Visits of an edge that telling symmetric nodes apart may take: some seconds."""

_ASSOCIATIVE = frozenset({"add", "mul"})
_UNORDERED = _ASSOCIATIVE | {"linear"}
_SOURCES = frozenset({"input", "state"})


def canonical_key(nodes: tuple[Node, ...], outputs: tuple[int, ...]) -> str:
    """32 hex digits, equal for two cells exactly when they are the same architecture.

    key = BLAKE2b-128(version, labels, canonical form of the graph of distinct values)

    Raises KeyLimitError when the flat sums and products are too large, or the cell too symmetric.
    """
    from ._C import canonical_form  # the one place that needs the compiled part

    values = _Values(nodes, outputs)
    labels, colours = _ranked(values.labels)
    counts = sorted({count for reads in values.reads for count in reads.values()})
    rank = {count: index for index, count in enumerate(counts)}
    edges = [
        (value, read, rank[count])
        for value, reads in enumerate(values.reads)
        for read, count in reads.items()
    ]
    form = canonical_form(colours, edges, MAX_STEPS)
    if form is None:
        raise KeyLimitError(
            f"no key: expected a cell whose {len(colours):,} values are told apart in"
            f" {MAX_STEPS:,} steps, found one that is too symmetric: give it fewer interchangeable"
            " parts"
        )
    header = "\n".join([f"fastcell cell {FORM}", *labels, *map(hex, counts), ""])
    return blake2b(header.encode() + form, digest_size=16).hexdigest()


def _ranked(labels: list[str]) -> tuple[list[str], list[int]]:
    """The distinct labels in order, and the place of each label among them."""
    distinct = sorted(set(labels))
    rank = {label: index for index, label in enumerate(distinct)}
    return distinct, [rank[label] for label in labels]


class _Values:
    """The distinct values of a cell, sums and products flat.

    `reads[v]` maps each value that v reads to a whole number: how often, where order is nothing;
    else the set of its places as bits (1 the left or only one, 2 the right, 3 both).
    """

    def __init__(self, nodes: tuple[Node, ...], outputs: tuple[int, ...]) -> None:
        self.labels: list[str] = []
        self.reads: list[Mapping[int, int]] = []
        self._nodes = nodes
        self._value: dict[int, int] = {}
        self._steps = 0
        self._index: dict[Hashable, int] = {}
        whole = self._whole(outputs)
        for index, node in enumerate(nodes):
            if index in whole or node.op not in _ASSOCIATIVE:
                self._add(index, node)
        for position, output in enumerate(outputs):
            self.labels[self._value[output]] += f" -> {position}"

    def _whole(self, outputs: tuple[int, ...]) -> set[int]:
        """Outputs, and what some other op reads: a sum read by sums alone is a part of them."""
        nodes = self._nodes
        read = {arg for node in nodes for arg in node.args if nodes[arg].op != node.op}
        return read.union(outputs)

    def _add(self, index: int, node: Node) -> None:
        """Elementwise nodes of the same op and reads are one value; all others are their own."""
        reads = self._read(index, node)
        own = index if node.op in PARAMETERS or node.op in _SOURCES else None
        identity = own, node.op, node.value, frozenset(reads.items())
        value = self._value[index] = self._index.setdefault(identity, len(self.labels))
        if value == len(self.labels):
            # -0.0 is 0.0, as it is for the equality of cells.
            place = index if node.op in _SOURCES else node.value or 0.0
            self.labels.append(f"{node.op} {place!r} {node.bias}")
            self.reads.append(reads)

    def _read(self, index: int, node: Node) -> Mapping[int, int]:
        if node.op in _ASSOCIATIVE:
            return self._flat(index)
        self._spend(len(node.args), index)
        reads = Counter[int]()
        for position, arg in enumerate(node.args):
            reads[self._value[arg]] += 1 if node.op in _UNORDERED else 1 << position
        return reads

    def _flat(self, root: int) -> Mapping[int, int]:
        """How often each operand is in the flat sum or product; exact, however large."""
        nodes, op = self._nodes, self._nodes[root].op
        reads, parts = Counter[int](), Counter({root: 1})
        # Later nodes first: the count of a part is final when the part is opened.
        pending = [-root]
        while pending:
            part = -heappop(pending)
            count = parts[part]
            self._spend(1, root)
            for arg in nodes[part].args:
                if nodes[arg].op != op:
                    reads[self._value[arg]] += count
                    continue
                if arg not in parts:
                    heappush(pending, -arg)
                parts[arg] += count
        return reads

    def _spend(self, reads: int, index: int) -> None:
        self._steps += reads
        if self._steps > MAX_READS:
            named = self._nodes[index].name
            raise KeyLimitError(
                f"no key: expected at most {MAX_READS:,} operands once sums and products are flat,"
                f" found more at {named or f'node {index}'}: reuse fewer partial sums and products"
            )
