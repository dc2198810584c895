"""How sure a figure is: Kendall's tau with its error, and two samples of few seeds compared."""

from collections.abc import Sequence
from itertools import combinations
from math import comb, erfc, nan, sqrt

import numpy as np
from numpy.typing import NDArray

_MANY = 20_000


def kendall(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Kendall's tau-b and its standard error, NaN where they are not defined.

    error² = (n - 1) / n * sum (tau without i - their mean)²        (the jackknife)
    """
    signs = [np.sign(np.subtract.outer(each, each)) for each in (a, b)]
    n = len(a)
    tau = _tau(*signs)
    if n < 3:
        return tau, nan
    rest = [np.delete(np.arange(n), i) for i in range(n)]
    left = np.array([_tau(*(sign[np.ix_(keep, keep)] for sign in signs)) for keep in rest])
    return tau, float(sqrt((n - 1) / n * np.square(left - left.mean()).sum()))


def _tau(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    norm = sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / norm) if norm else nan


def wins(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, int]:
    """(pairs in which ours is lower, a tie counting half; pairs)."""
    won = sum((a < b) + (a == b) / 2 for a in ours for b in theirs)
    return float(won), len(ours) * len(theirs)


def chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How often wins so one-sided, either way, come of dealing the values out at random.

    Mann and Whitney 1947, by trying every deal; by the normal approximation where they are many.
    """
    everything, n = [*ours, *theirs], len(ours)
    pairs = n * len(theirs)
    found = abs(wins(ours, theirs)[0] - pairs / 2)
    if comb(len(everything), n) > _MANY:
        return erfc(found / sqrt(pairs * (len(everything) + 1) / 6))
    deals = extreme = 0
    for chosen in combinations(range(len(everything)), n):
        mine = [everything[i] for i in chosen]
        others = [value for i, value in enumerate(everything) if i not in chosen]
        deals += 1
        extreme += abs(wins(mine, others)[0] - pairs / 2) >= found
    return extreme / deals
