"""Gradient boosting on the features, by LightGBM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Floats
from .model import Estimate

MEMBERS, TREES = 5, 150
_OPTIONS = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 8,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "num_threads": 1,
    "deterministic": True,
    "verbosity": -1,
}


@dataclass
class BoostingModel:
    """Trees for both questions, several times on other parts of the data."""

    name = "boosting"

    classifiers: list[Any] = field(default_factory=list)
    regressors: list[Any] = field(default_factory=list)

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""
        usable = data.usable.astype(np.float32)
        self.classifiers = [_trees("binary", data.rows, usable, seed + i) for i in range(MEMBERS)]
        self.regressors = [
            _trees("regression", data.rows, data.targets, seed + i) for i in range(MEMBERS)
        ]

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Mean over the members; the spread is their standard deviation."""
        usable = np.stack([each.predict(rows) for each in self.classifiers])
        targets = np.stack([each.predict(rows) for each in self.regressors])
        means = (usable.mean(axis=0), targets.mean(axis=0), targets.std(axis=0))
        return Estimate(*(mean.astype(np.float32) for mean in means))


def _trees(objective: str, rows: Floats, targets: Floats, seed: int) -> Any:
    # Imported here: it is an extra, for those who fit.
    import lightgbm

    options = {**_OPTIONS, "objective": objective, "seed": seed}
    return lightgbm.train(options, lightgbm.Dataset(rows, targets), num_boost_round=TREES)
