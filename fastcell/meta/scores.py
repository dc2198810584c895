"""How good estimates are, on cells that the model has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset
from .model import Estimate

Floats64 = NDArray[np.floating]

BINS = 10


@dataclass(frozen=True)
class Scores:
    """Of estimates against labels; see the functions. NaN where it is not defined."""

    auc: float
    calibration_error: float
    kendall: float
    kendall_rounded: float
    """With errors rounded to a tenth of a decade, so that noise doesn't count as order."""
    spearman_usable: float
    recall_top: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def score(data: Dataset, estimate: Estimate) -> Scores:
    """All of them."""
    usable, targets = data.usable, data.targets
    return Scores(
        auc=auc(usable, estimate.usable),
        calibration_error=calibration_error(usable, estimate.usable),
        kendall=kendall(targets, estimate.target),
        kendall_rounded=kendall(targets.round(1), estimate.target.round(1)),
        spearman_usable=spearman(targets[usable], estimate.target[usable]),
        recall_top=recall_top(targets, estimate.target),
    )


def auc(truth: NDArray[np.bool_], probability: Floats64) -> float:
    """The chance that a usable cell is given more than another; a tie counts half."""
    from scipy.stats import rankdata

    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        return float("nan")
    ranks = rankdata(probability)[truth].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def calibration(truth: NDArray[np.bool_], probability: Floats64) -> list[tuple[float, float, int]]:
    """(mean probability, share of usable cells, cells) for each tenth that holds any."""
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    return [
        (float(probability[place == i].mean()), float(truth[place == i].mean()), int(n))
        for i, n in enumerate(np.bincount(place, minlength=BINS))
        if n
    ]


def calibration_error(truth: NDArray[np.bool_], probability: Floats64) -> float:
    """Expected: the mean over cells of |mean probability - share of usable| in their tenth."""
    curve = calibration(truth, probability)
    return sum(n * abs(mean - share) for mean, share, n in curve) / max(1, len(truth))


def kendall(truth: Floats64, estimate: Floats64) -> float:
    """Kendall's tau-b, which corrects for ties."""
    from scipy.stats import kendalltau

    return float(kendalltau(truth, estimate).statistic) if len(truth) > 1 else float("nan")


def spearman(truth: Floats64, estimate: Floats64) -> float:
    """Spearman's rho."""
    from scipy.stats import spearmanr

    return float(spearmanr(truth, estimate).statistic) if len(truth) > 2 else float("nan")


def recall_top(truth: Floats64, estimate: Floats64, part: float = 0.05) -> float:
    """How much of the best 5 % lies in the predicted best 5 %."""
    n = max(1, round(part * len(truth)))
    best, predicted = (set(np.argsort(each, kind="stable")[:n]) for each in (truth, estimate))
    return len(best & predicted) / n
