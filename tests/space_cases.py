"""What the tests of the search space share: small spaces, random cells, the golden codes."""

import json
from pathlib import Path

import numpy as np
import space_oracle as oracle
from hypothesis import strategies as st

from fastcell import _C, space

GOLDEN = json.loads((Path(__file__).parent / "golden" / "space_codes.json").read_text())


def edited(**fields):
    """The reference cell with other fields, so that one rule breaks."""
    return space.unpack(GOLDEN["adding_dag"])._replace(**fields).pack()


def reading(text):
    """A small space: 'gate0: x h; add: x' and so on; what is not named reads nothing."""
    allowed = dict.fromkeys(oracle.READERS, frozenset())
    for entry in text.split(";"):
        reader, names = entry.split(":")
        allowed[reader.strip()] = frozenset(names.split())
    return allowed


SMALL = {
    "every order": reading(
        "gate0: x h gate1 gate2 add; gate1: x h gate0 gate2 add; gate2: x h add; add: x;"
        "h': gate0 gate1 gate2 add; c': x"
    ),
    "no tanh gate": reading(
        "gate0: x h gate1 add; gate1: x h gate0 add; add: x gate0 gate1;"
        "h': x gate0 gate1 add; c': gate0 gate1"
    ),
    "no Add": reading(
        "gate0: x gate1 gate2; gate1: x gate0 gate2; gate2: x h gate0 gate1;"
        "h': gate0 gate1 gate2; c': x h gate2"
    ),
}
"""Spaces that can be listed, each with another part of the rules."""

EVEN = reading(
    "gate0: x h gate1 gate2 add; gate1: x h gate0 gate2 add; gate2: x h add; add: x gate0 gate1;"
    "h': gate0 gate1 gate2 add; c': gate2"
)
"""A space with enough cells of every order to take statistics of."""

SUMS = reading(
    "gate0: x gate1 gate2 add; gate1: x gate0 gate2 add; gate2: x h; add: x h gate2;"
    "h': x gate0 gate1 gate2 add; c': h add"
)
"""A space rich in cells that are one function: aliases, sums in sums, products of products."""


def compiled(allowed):
    return _C.Space(
        [sum(1 << oracle.SOURCES.index(n) for n in names) for names in allowed.values()]
    )


def listed(small):
    return np.concatenate([small.listed(order) for order in range(24)])


@st.composite
def codes(draw):
    """A labelled cell of the whole space, filled up in some order; what is not live joins h'."""
    cell, available = {}, list(oracle.INPUTS)
    for node in draw(st.permutations(oracle.INTERNAL)):
        source = st.sampled_from(available)
        if node in oracle.GATES:
            contexts = draw(st.sets(source, min_size=2, max_size=2))
            cell[node] = frozenset(contexts), draw(source)
        else:
            cell[node] = frozenset(draw(st.sets(source, min_size=1)))
        available.append(node)
    for output in ("h'", "c'"):
        cell[output] = frozenset(draw(st.sets(st.sampled_from(oracle.SOURCES), min_size=1)))
    cell["h'"] |= set(oracle.INTERNAL) - oracle.reached(*oracle.internal(cell))
    return oracle.pack(cell)


@st.composite
def near_pairs(draw):
    """Two cells that are the same, or twins, or differ in one or two bits."""
    code = draw(codes())
    other = oracle.pack(oracle.twin(oracle.unpack(code))) if draw(st.booleans()) else code
    for bit in draw(st.sets(st.integers(0, 56), max_size=2)):
        other ^= 1 << bit
    return code, other if oracle.is_cell(other) else code
