"""Labels as arrays: a row for each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np
from numpy.typing import NDArray

from ..features import features
from ..labels import Label
from ..results import HOPELESS

FLOOR = 1e-7
"""Lower errors count as this: the best cells end near 1e-5."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Dataset:
    """N cells: codes (N,), features (N, columns), targets (N,).

    A target is log10 of the best validation NMSE, at most 0, which always guessing the mean has
    and a run that diverged gets; the mean over a cell's seeds.
    """

    codes: NDArray[np.int64]
    rows: Floats
    targets: Floats

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether a cell learned the task: an NMSE below HOPELESS.

        Labels fall in two heaps, at 1 and above, and below 0.1; little lies between.
        """
        return self.targets < log10(HOPELESS)

    def __getitem__(self, chosen: NDArray[np.generic]) -> Dataset:
        return Dataset(self.codes[chosen], self.rows[chosen], self.targets[chosen])

    def __len__(self) -> int:
        return len(self.codes)


def target(label: Label) -> float:
    """log10 of the best validation NMSE within [FLOOR, 1], 0 for none."""
    best = 1.0 if label.best_validation is None else label.best_validation
    return log10(min(max(best, FLOOR), 1.0))


def by_cell(labels: Sequence[Label]) -> dict[int, dict[int, float]]:
    """Code -> seed -> target, in order of the codes; runs that failed tell nothing."""
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for label in sorted(labels, key=lambda label: (label.code, label.seed)):
        if label.status != "failed":
            found[label.code][label.seed] = target(label)
    return found


def dataset(labels: Sequence[Label]) -> Dataset:
    """The labelled cells, in order of their codes."""
    cells = by_cell(labels)
    codes = np.array(list(cells), dtype=np.int64)
    means = [float(np.mean(list(seeds.values()))) for seeds in cells.values()]
    return Dataset(codes, features(codes), np.array(means, dtype=np.float32))
