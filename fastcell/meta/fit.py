"""Which candidate predicts best: cross-validation, learning curve and the ceiling of the seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import Label
from .boosting import BoostingModel
from .dataset import Dataset, by_cell
from .graph import GraphModel
from .model import Estimate, Model
from .network import NetworkModel
from .scores import Scores, calibration, kendall, score

FOLDS = 5
CANDIDATES: dict[str, Callable[[], Model]] = {
    "network": NetworkModel,
    "boosting": BoostingModel,
    "graph": GraphModel,
}


@dataclass(frozen=True)
class Validation:
    """What a candidate says of each cell when it was fitted to the others."""

    estimate: Estimate
    scores: Scores
    calibration: list[tuple[float, float, int]]
    """(mean probability, share of usable cells, cells) in each tenth."""


def cross_validate(make: Callable[[], Model], data: Dataset, seed: int = 0) -> Validation:
    """Estimates of every cell from a model that has not seen it."""
    usable, target, spread = (np.zeros(len(data), np.float32) for _ in range(3))
    for held in folds(len(data), seed):
        rest = np.setdiff1d(np.arange(len(data)), held)
        estimate = _fitted(make, data[rest], seed).predict(data.codes[held], data.rows[held])
        usable[held], target[held] = estimate.usable, estimate.target
        spread[held] = estimate.spread
    whole = Estimate(usable, target, spread)
    return Validation(whole, score(data, whole), calibration(data.usable, usable))


def folds(n: int, seed: int) -> list[NDArray[np.intp]]:
    """The numbers below n, dealt out at random."""
    return np.array_split(np.random.default_rng(seed).permutation(n), min(FOLDS, n))


def learning_curve(
    make: Callable[[], Model], data: Dataset, counts: Sequence[int], seed: int = 0
) -> dict[int, Scores]:
    """Scores on the same held-out fifth by how many of the other cells were learned from."""
    held, *rest = folds(len(data), seed)
    pool, curve = np.concatenate(rest), dict[int, Scores]()
    for count in counts:
        model = _fitted(make, data[pool[:count]], seed)
        curve[count] = score(data[held], model.predict(data.codes[held], data.rows[held]))
    return curve


def noise_ceiling(labels: Sequence[Label]) -> dict[str, float]:
    """What one seed tells of another, on the cells with several: no model can beat it by much."""
    pairs = [
        (seeds[0], seeds[other])
        for seeds in by_cell(labels).values()
        for other in seeds
        if other and 0 in seeds
    ]
    if not pairs:
        return {"pairs": 0}
    first, second = np.array(pairs).T
    both = first + second < 0
    return {
        "pairs": len(pairs),
        "kendall": kendall(first, second),
        "kendall_rounded": kendall(first.round(1), second.round(1)),
        "median_difference": float(np.median(abs(first - second)[both])) if both.any() else 0.0,
    }


def compare(labels: Sequence[Label], data: Dataset) -> dict[str, Any]:
    """Every candidate's scores, the best one's learning curve and the noise ceiling, as JSON."""
    validations = {name: cross_validate(make, data) for name, make in CANDIDATES.items()}
    best = max(validations, key=lambda name: validations[name].scores.kendall)
    counts = [n for n in (50, 100, 200, 400, 800, 1600) if n < 0.8 * len(data)]
    counts.append(int(0.8 * len(data)))
    curve = learning_curve(CANDIDATES[best], data, counts)
    return {
        "cells": len(data),
        "usable": int(data.usable.sum()),
        "scores": {name: each.scores.to_dict() for name, each in validations.items()},
        "best": best,
        "calibration": {name: each.calibration for name, each in validations.items()},
        "learning_curve": {str(count): scores.to_dict() for count, scores in curve.items()},
        "noise_ceiling": noise_ceiling(labels),
    }


def _fitted(make: Callable[[], Model], data: Dataset, seed: int) -> Model:
    model = make()
    model.fit(data, seed)
    return model
