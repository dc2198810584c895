"""The search space: every cell of three gates and an Add as one integer, its code.

    g     = tanh(linear(x, h))
    gate0 = sigmoid(linear(a, b)) * v          two distinct contexts, in no order, and a value
    gate1 = sigmoid(linear(a, b)) * v
    gate2 = sigmoid(linear(a, b)) * tanh(v)
    add, h', c'                                a non-empty sum of distinct sources each

The gates and the Add read the sources x, h, c, g and each other, in no cycle; h' and c' read all
eight. The gates and the Add all reach h' or c'. gate0 and gate1 differ in name only.

A code has 57 bits, lowest first: gate0, gate1, gate2 (mask of the contexts, 8; number of the value,
3), then the masks, 8 bits each, of add, h', c'. Bit and number of a source is its place in SOURCES.
A cell has one code for each way to name its identity gates; the smaller one is canonical. It is a
hash without collisions: two cells are isomorphic exactly when their canonical codes are equal.

Functions take codes as an integer, a sequence or an array, and give back the same shape.
"""

import operator
from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _C
from .errors import CodeError
from .ir import Cell
from .language import parse
from .space_cell import SOURCES, unpack, write, writings
from .space_reader import outside, read

SPACE_VERSION = 1
"""Of the layout of codes and of what `sample` gives for a seed."""

ORDERS = tuple(permutations(SOURCES[4:]))
"""The 24 orders of the internal nodes; `order` gives an index into them."""

_READS = (0xEF, 0xDF, 0xBF, 0x7F, 0xFF, 0xFF)


@cache
def whole() -> _C.Space:
    """The space itself; tests build smaller ones."""
    return _C.Space(_READS)


def count() -> int:
    """How many cells there are: classes under the swap of gate0 and gate1.

    |classes| = (|labelled cells| + |cells that the swap leaves alone|) / 2        (Burnside)

    Each class is counted once, at its canonical code, which amounts to the same: of the cells that
    the swap moves half come first. Whether a cell is acyclic and live depends only on its links
    (which internal nodes each node reads), and which of its two codes is smaller on the first
    node, from the top bits, where they differ. So each node's fields are counted by (links,
    comparison), and the six small tables are multiplied out within each of the 24 orders.
    """
    return sum(strata())


def strata() -> list[int]:
    """How many cells have each of the ORDERS."""
    return whole().strata()


def sample(
    n: int, seed: int = 0, orders: int = 24, *, threads: int | None = None
) -> NDArray[np.int64]:
    """n distinct canonical codes; number i is drawn uniformly among the cells of order i % orders.

    A function of (seed, orders) alone: any number of threads gives the same, and a longer sample
    begins with the shorter one. Raises CodeError when an order has fewer cells than its share.

    Source: rejection from the labelled cells that fill up in that order, without replacement.
    """
    n = _whole_number("n", n, 0, None)
    seed = _whole_number("seed", seed, 0, 2**64 - 1)
    orders = _whole_number("orders", orders, 1, 24)
    threads = 0 if threads is None else _whole_number("threads", threads, 1, 1024)
    return _draw(whole(), n, seed, orders, threads)


def canonicalize(codes: ArrayLike) -> NDArray[np.int64]:
    """The smaller of each cell's two codes. Raises CodeError for a code that is no cell."""
    return _apply(_C.canonicalize, codes)


def is_canonical(codes: ArrayLike) -> NDArray[np.bool_]:
    """Whether each code is the smaller of its two. Raises CodeError for a code that is no cell."""
    return _apply(_C.is_canonical, codes)


def order(codes: ArrayLike) -> NDArray[np.int64]:
    """Index into ORDERS of the smallest topological order of each canonical cell's internal nodes.

    Smallest lexicographically, with gate0 < gate1 < gate2 < add. Raises CodeError for a code that
    is no cell.
    """
    return _apply(whole().order, codes)


def functional_key(codes: ArrayLike) -> NDArray[np.int64]:
    """A coarser key: equal exactly for cells that are one expression by the laws of + and *.

    That is, up to names and to order and grouping in sums and products, like `Cell.key`; so equal
    keys are equal functions. The key is a code rewritten, each step keeping the expression, until
    no freedom is left:

    1. An Add of one source is that source, in contexts and values. A context pair may become one
       source twice: a mask of one bit.
    2. An output is a flat sum with counts 0, 1, 2. The Add's bit stays only where some count is 2,
       and the other bits are then the sum less the Add.
    3. An Add that no gate reads is seen in its sums alone; it shrinks to what they count twice.
    4. A gate that is nothing but the value of one identity gate only adds factors to it. The
       contexts along such a chain are put in ascending order.
    5. Of the two namings of the identity gates, the smaller number.

    No two expressions share a key, since it can be read back, and an expression has only one: it
    fixes the Add (by a gate that reads it, else by 3), so the masks of the outputs (2). Its flat
    products, as sets of sigmoids, fix which gate is the value of which, but for the order along the
    chains of 4. What is left are names. Raises CodeError for a code that is no cell.
    """
    return _apply(_C.functional_key, codes)


def decode(code: int) -> Cell:
    """The cell of a code, the same one for both its codes. Raises CodeError for no cell's code."""
    canonical = int(canonicalize(code))
    return parse(write(unpack(canonical), ORDERS[int(order(canonical))]))


def encode(cell: Cell) -> int:
    """The smallest canonical code whose cell has the key of this one.

    Any way to write the cell will do. Raises CodeError, with the reason, when there is no code.
    """
    key = int(_C.functional_key(np.array([read(cell).pack()]))[0])
    codes = np.array([fields.pack() for fields in writings(unpack(key))], dtype=np.int64)
    alike = codes[whole().valid(codes) & (_C.functional_key(codes) == key)]
    if not alike.size:
        raise outside(cell, "a source twice in a linear or sum, which one Add does not explain")
    return int(_C.canonicalize(alike).min())


def _apply(function: Callable[[NDArray[np.int64]], NDArray[Any]], codes: ArrayLike) -> NDArray[Any]:
    """The function of codes checked to be cells; an integer gives a NumPy scalar."""
    return function(checked(codes)).reshape(np.shape(codes))[()]


def checked(codes: ArrayLike) -> NDArray[np.int64]:
    """The codes in one row. Raises CodeError for a code that is no cell."""
    array = np.asarray(codes)
    if array.size == 0 and not isinstance(codes, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise CodeError(f"expected codes as integers, found {array.dtype}: use dtype=np.int64")
    flat = np.ascontiguousarray(array, dtype=np.int64).reshape(-1)
    valid = whole().valid(flat)
    if not valid.all():
        index = int(valid.argmin())
        raise CodeError(
            f"expected codes of cells, found {array.flat[index]} at index {index}:"
            f" {whole().broken_rule(int(flat[index]))}; sample and encode give codes"
        )
    return flat


def _draw(space: _C.Space, n: int, seed: int, orders: int, threads: int) -> NDArray[np.int64]:
    most = min(cells * orders + i for i, cells in enumerate(space.strata()[:orders]))
    if n > most:
        raise CodeError(f"expected n <= {most:,}, or some order runs out of cells, found {n:,}")
    return space.sample(n, seed, orders, threads)


def _whole_number(name: str, value: Any, least: int, most: int | None) -> int:
    """Raises CodeError unless least <= value <= most."""
    bounds = f"a whole number >= {least}" + (f" and <= {most}" if most is not None else "")
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        raise CodeError(f"{name}: expected {bounds}, found {value!r}")
    return number
