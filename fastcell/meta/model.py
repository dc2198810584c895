"""What every candidate for the meta-model can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .dataset import Dataset, Floats


@dataclass(frozen=True)
class Estimate:
    """Of N cells: the probability that one is usable, the target, and how far it may be off."""

    usable: NDArray[np.float32]
    target: NDArray[np.float32]
    spread: NDArray[np.float32]
    """One standard deviation, as the members of an ensemble differ."""


def ensemble(usable: Tensor, target: Tensor) -> Estimate:
    """Of the members' answers (E, N): means, and the spread of the targets."""
    mean = target.mean(dim=0)
    spread = (target - mean).square().mean(dim=0).sqrt()
    return Estimate(usable.mean(dim=0).numpy(), mean.numpy(), spread.numpy())


class Model(Protocol):
    """Fitted to labelled cells, then asked of others."""

    name: str

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Of each cell, by its code or its features."""
