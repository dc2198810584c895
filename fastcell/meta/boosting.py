"""Gradient boosting on the features: fitted by LightGBM, evaluated by a Forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Floats
from .forest import Forest
from .model import Estimate, ensemble

MEMBERS, TREES = 3, 100
_OPTIONS = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "max_depth": 5,
    "min_data_in_leaf": 5,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "num_threads": 1,
    "deterministic": True,
    "use_missing": False,
    "verbosity": -1,
}


@dataclass
class BoostingModel:
    """Trees for both questions, several times on other parts of the data."""

    name = "boosting"

    forest: Forest | None = None
    """Outputs: the logit of each member, then the target of each."""

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""
        usable = data.usable.astype(np.float32)
        seeds = range(seed * MEMBERS, (seed + 1) * MEMBERS)
        logits = [_trees("binary", data.rows, usable, each) for each in seeds]
        targets = [_trees("regression", data.rows, data.targets, each) for each in seeds]
        self.forest = Forest.of([*logits, *targets])

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Mean over the members; the spread is their standard deviation."""
        assert self.forest is not None
        logits, targets = np.split(self.forest.evaluate(rows).T, 2)
        return ensemble((1 / (1 + np.exp(-logits))).astype(np.float32), targets)


def _trees(objective: str, rows: Floats, targets: Floats, seed: int) -> Any:
    # Imported here: it is an extra, for those who fit.
    import lightgbm

    options = {**_OPTIONS, "objective": objective, "seed": seed}
    return lightgbm.train(options, lightgbm.Dataset(rows, targets), num_boost_round=TREES)
