"""What every candidate for the meta-model can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Floats


@dataclass(frozen=True)
class Estimate:
    """Of N cells: the probability that one is usable, the target, and how far it may be off."""

    usable: NDArray[np.float32]
    target: NDArray[np.float32]
    spread: NDArray[np.float32]
    """One standard deviation, as the members of an ensemble differ."""


NO_HOPE = 0.05
"""A cell that is usable with less counts as one that learns nothing: most of these diverge."""


def ensemble(usable: Floats, target: Floats) -> Estimate:
    """Of the members' answers (E, N): means, and the spread of the targets.

    A target is 0 where there is NO_HOPE.
    """
    chance = usable.mean(axis=0)
    mean = np.where(chance < NO_HOPE, np.float32(0), target.mean(axis=0))
    return Estimate(chance, mean, target.std(axis=0))


class Model(Protocol):
    """Fitted to labelled cells, then asked of others."""

    name: str

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Of each cell, by its code or its features."""
