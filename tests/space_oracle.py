"""The search space in plain Python, by the book and without fastcell: slow and plainly right.

A cell is {reader: what it reads}: a gate reads (contexts, value), the others a set of sources.
"""

from collections import Counter
from functools import cache
from itertools import combinations, permutations, product
from math import prod

INPUTS = ("x", "h", "c", "g")
GATES = ("gate0", "gate1", "gate2")
INTERNAL = (*GATES, "add")
SOURCES = (*INPUTS, *INTERNAL)
READERS = (*INTERNAL, "h'", "c'")
START = dict(zip(READERS, (0, 11, 22, 33, 41, 49), strict=True))
EVERYTHING = {reader: frozenset(SOURCES) - {reader} for reader in READERS}


def unpack(code):
    """The cell that 57 bits spell, right or wrong."""
    cell = {}
    for reader in READERS:
        bits = code >> START[reader]
        read = frozenset(name for i, name in enumerate(SOURCES) if bits >> i & 1)
        cell[reader] = (read, SOURCES[bits >> 8 & 7]) if reader in GATES else read
    return cell


def pack(cell):
    code = 0
    for reader, read in cell.items():
        if reader in GATES:
            read, value = read
            code |= SOURCES.index(value) << START[reader] + 8
        for name in read:
            code |= 1 << START[reader] + SOURCES.index(name)
    return code


def reads(cell, reader):
    """The sources that one node reads."""
    return cell[reader][0] | {cell[reader][1]} if reader in GATES else cell[reader]


def internal(cell):
    """Who reads whom: for each internal node its internal sources, then those of the outputs.

    A node that the cell lacks reads nothing.
    """
    inner = tuple(
        reads(cell, node) & set(INTERNAL) if node in cell else frozenset() for node in INTERNAL
    )
    return inner, (cell["h'"] | cell["c'"]) & set(INTERNAL)


@cache
def topological_orders(inner):
    """All orders of the internal nodes in which each comes after what it reads."""
    links = dict(zip(INTERNAL, inner, strict=True))
    return [
        order
        for order in permutations(INTERNAL)
        if all(links[node] <= set(order[:place]) for place, node in enumerate(order))
    ]


@cache
def reached(inner, roots):
    """The internal nodes on a path to an output."""
    links = dict(zip(INTERNAL, inner, strict=True))
    while (more := roots.union(*(links[node] for node in roots))) != roots:
        roots = more
    return roots


def choices(reader, allowed):
    """Everything that one node may read."""
    names = sorted(allowed, key=SOURCES.index)
    if reader in GATES:
        return [(frozenset(pair), value) for pair in combinations(names, 2) for value in names]
    return [frozenset(s) for size in range(1, len(names) + 1) for s in combinations(names, size)]


def is_cell(code):
    cell = unpack(code)
    if code < 0 or code >> 57 or any(reader in reads(cell, reader) for reader in READERS):
        return False
    if any(len(cell[gate][0]) != 2 for gate in GATES) or not (
        cell["add"] and cell["h'"] and cell["c'"]
    ):
        return False
    inner, roots = internal(cell)
    return bool(topological_orders(inner)) and reached(inner, roots) == set(INTERNAL)


def twin(cell):
    """The cell with gate0 and gate1 called each other's name."""
    return {_renamed(reader): _renamed(read) for reader, read in cell.items()}


@cache
def _renamed(name):
    """A name, a set of names, or a gate's two fields, after the swap."""
    if isinstance(name, str):
        return {"gate0": "gate1", "gate1": "gate0"}.get(name, name)
    return type(name)(_renamed(part) for part in name)


def canonical(code):
    return min(code, pack(twin(unpack(code))))


def order(code):
    """The smallest topological order of the canonical cell, by rank among all permutations."""
    return smallest_order(internal(unpack(canonical(code)))[0])


@cache
def smallest_order(inner):
    smallest = min(topological_orders(inner), key=lambda nodes: [*map(INTERNAL.index, nodes)])
    return list(permutations(INTERNAL)).index(smallest)


def every_cell(allowed):
    """The labelled cells whose nodes read what is allowed; a node allowed nothing is absent."""
    present = [reader for reader in READERS if allowed[reader]]
    fields = {reader: choices(reader, allowed[reader]) for reader in present}
    outputs = list(product(fields["h'"], fields["c'"]))
    needed = set(present) & set(INTERNAL)
    for nodes in product(*(fields[node] for node in present[:-2])):
        cell = dict(zip(present, nodes, strict=False))
        inner, _ = internal({**cell, "h'": frozenset(), "c'": frozenset()})
        if topological_orders(inner):
            for h, c in outputs:
                if reached(inner, (h | c) & needed) == needed:
                    yield {**cell, "h'": h, "c'": c}


def count():
    """Burnside: half of all labelled cells and those that are their own twin."""
    return (_labelled(lambda part: True) + _labelled(lambda part: twin(part) == part)) // 2


def _labelled(keep):
    """Cells by who reads whom: the ways to do so, part by part, multiplied."""
    gates, gate2, add, h, c = (
        _ways(part, keep) for part in (GATES[:2], GATES[2:], ("add",), ("h'",), ("c'",))
    )
    roots = Counter()
    for ((one,), n), ((two,), m) in product(h.items(), c.items()):
        roots[one | two] += n * m
    total = 0
    for parts in product(gates.items(), gate2.items(), add.items()):
        inner = sum((links for links, _ in parts), ())
        if topological_orders(inner):
            live = sum(n for root, n in roots.items() if reached(inner, root) == set(INTERNAL))
            total += live * prod(n for _, n in parts)
    return total


def _ways(readers, keep):
    """How many fields of these nodes read each combination of internal nodes."""
    ways = Counter()
    for fields in product(*(choices(reader, EVERYTHING[reader]) for reader in readers)):
        part = dict(zip(readers, fields, strict=True))
        if keep(part):
            ways[tuple(reads(part, reader) & set(INTERNAL) for reader in readers)] += 1
    return ways


def expression(code):
    """What h' and c' are, the same for all cells that differ in names, order and grouping alone.

    The smallest over all ways to number the three linears; equal terms have equal identities.
    """
    cell = unpack(code)
    numbered = (dict(zip(GATES, numbers, strict=True)) for numbers in permutations(range(3)))
    return min(_outputs(cell, number) for number in numbered)


_identities, _terms = {}, []


def _identity(*term):
    """A number for the term, the same each time."""
    number = _identities.setdefault(term, len(_terms))
    if number == len(_terms):
        _terms.append(term)
    return number


def _outputs(cell, number):
    @cache
    def value(name):
        if name in INPUTS:
            return _identity(name)
        if name == "add":
            return flat("+", map(value, cell["add"]))
        contexts, factor = cell[name]
        sigmoid = _identity("sigmoid", number[name], *sorted(map(value, contexts)))
        other = _identity("tanh", value(factor)) if name == "gate2" else value(factor)
        return flat("*", (sigmoid, other))

    return tuple(flat("+", map(value, cell[output])) for output in ("h'", "c'"))


def flat(symbol, operands):
    """A sum or product with the sums or products in it opened; of one operand, the operand."""
    opened = []
    for operand in operands:
        kind, *parts = _terms[operand]
        opened += parts if kind == symbol else [operand]
    return opened[0] if len(opened) == 1 else _identity(symbol, *sorted(opened))
