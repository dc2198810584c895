"""Cells as rows of numbers: the columns that the meta-model reads.

GATE reads S, GATE carries S        the code spelled out: contexts, value,
add, h', c' sums S                  sums
place of NODE                       in the smallest topological order
KIND paths S to OUT                 how often S = x, h, c, g reaches OUT = h', c' along sums, if
                                    a gate lets through 0 (additive), 1/2 (half open) or 1
                                    (open) of its value, and nothing or all passes a tanh
KIND growth                         largest eigenvalue of the paths from (h, c) to (h', c'): what
                                    a step multiplies states with, where it is above 1
S reaches OUT                       along any way, contexts too
depth of OUT, shortest way to OUT   internal nodes on the longest and the shortest way
bounded OUT, terms of OUT           whether no state adds up in it; how many values it sums
contexts of, gates on, uses of S    how often it is read
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _C, space

VERSION = 1
"""Of the columns: a model fitted to others is refused."""

BLOCK = 1 << 14
"""Cells at a time: their features, and what a model makes of them, stay in the cache."""


@cache
def names() -> tuple[str, ...]:
    """The columns, in order."""
    return tuple(_C.feature_names())


def features(codes: ArrayLike) -> NDArray[np.float32]:
    """Codes (N,) to (N, columns); both codes of a cell have the same row.

    Raises CodeError for a code that is no cell.
    """
    return space.whole().features(space.checked(codes))


def blocks(codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The codes in order, BLOCK at a time."""
    return np.split(codes, range(BLOCK, len(codes), BLOCK))
