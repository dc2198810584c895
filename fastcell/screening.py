"""Screening: every candidate is estimated, the most promising are kept, controls beside them.

    top       lowest estimated error of those that pass, usable with probability >= THRESHOLD
    passing   drawn at random from those that pass
    random    drawn at random from all candidates

Candidates come in blocks and are forgotten again: beside their codes, 8 bytes each, memory does not
grow with their number. Which are picked does not depend on blocks or threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import features, space
from .library import CELLS
from .meta.model import Estimate
from .results import code_of

THRESHOLD = 0.5
SPARE = 4
"""Times as many are kept as are picked, since some are the same function in another code."""

Codes = NDArray[np.int64]
Floats = NDArray[np.floating]


class Predictor(Protocol):
    """What screening asks of a meta-model."""

    key: str
    """Changes with what it answers."""
    metadata: dict[str, Any]
    """What is known of it, as JSON values."""

    def estimate(self, codes: Codes, rows: NDArray[np.float32]) -> Estimate:
        """Of cells by code and features."""


class Watcher(Protocol):
    """Told how far a stage is, in candidates."""

    def stage(self, name: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...

    def ended(self, name: str, count: int, seconds: float) -> None: ...


@dataclass(frozen=True)
class Known:
    """A cell of the library that lies in the space, screened along."""

    name: str
    code: int
    usable: float
    target: float
    spread: float
    rank: int
    """From 1, among the candidates that pass, by estimated error."""


@dataclass(frozen=True)
class Screening:
    """What came of it."""

    candidates: int
    passed: int
    seconds: dict[str, float]
    """Of each stage: "sample" by the clock, "encode" and "predict" of all threads together,
    "screen" by the clock from the first block to the last."""
    threads: int
    known: list[Known]
    picked: dict[str, dict[int, tuple[float, float, float]]]
    """Of each group, codes and their (usable, target, spread)."""

    def as_plan(self) -> dict[str, Any]:
        """As JSON values: screening, picked, estimates."""
        values = asdict(self)
        picked = values.pop("picked")
        return {
            "screening": values,
            "picked": {name: list(chosen) for name, chosen in picked.items()},
            "estimates": {
                str(code): list(estimate)
                for chosen in picked.values()
                for code, estimate in chosen.items()
            },
        }


@dataclass
class _Best:
    """The rows of smallest key seen so far, equal keys by code: enough for n different functions.

    A sum of one term and such give one function several codes.
    """

    n: int
    keys: Floats = field(default_factory=lambda: np.empty(0))
    rows: Floats = field(default_factory=lambda: np.empty((0, 3)))
    codes: Codes = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, keys: Floats, codes: Codes, rows: Floats) -> None:
        kept = SPARE * self.n
        worst = self.keys[-1] if 0 < kept == len(self.keys) else np.inf
        near = keys <= worst
        keys, codes = np.r_[self.keys, keys[near]], np.r_[self.codes, codes[near]]
        rows = np.concatenate([self.rows, rows[near]])
        chosen = np.lexsort((codes, keys))[:kept]
        self.keys, self.codes, self.rows = keys[chosen], codes[chosen], rows[chosen]

    def distinct(self) -> dict[int, tuple[float, float, float]]:
        """The first n of different functions, each by the code that its cell has when written."""
        _, first = np.unique(space.functional_key(self.codes), return_index=True)
        return {
            int(space.encode(space.decode(int(self.codes[i])))): _rounded(self.rows[i].tolist())
            for i in np.sort(first)[: self.n]
        }


class _Picks:
    """What is kept of the blocks, which come in order."""

    def __init__(self, train: int, control: int, seed: int, known: Estimate) -> None:
        self.groups = {"top": _Best(train), "passing": _Best(control), "random": _Best(control)}
        self.draws = np.random.default_rng([seed, 1])
        self.known = known
        self.ranks = np.ones(len(known.target), np.int64)
        self.passed = 0

    def add(self, codes: Codes, estimate: Estimate) -> None:
        rows = np.stack([estimate.usable, estimate.target, estimate.spread], axis=1)
        passed = estimate.usable >= THRESHOLD
        lots = self.draws.random((len(codes), 2))  # the smallest are drawn
        self.groups["random"].add(lots[:, 0], codes, rows)
        self.groups["passing"].add(lots[passed, 1], codes[passed], rows[passed])
        better = estimate.target[passed]
        self.groups["top"].add(better, codes[passed], rows[passed])
        self.ranks += (better[:, None] < self.known.target).sum(axis=0)
        self.passed += int(passed.sum())

    def chosen(self) -> dict[str, dict[int, tuple[float, float, float]]]:
        """Of each group, the codes of different functions and their estimates."""
        return {name: best.distinct() for name, best in self.groups.items()}


def _rounded(row: list[float]) -> tuple[float, float, float]:
    usable, target, spread = (round(value, 6) for value in row)
    return usable, target, spread


def screen(
    candidates: int,
    train: int,
    control: int,
    seed: int,
    predictor: Predictor,
    threads: int,
    watcher: Watcher,
) -> Screening:
    """Draws so many candidates, and picks `train` for the top and `control` for each control."""
    began = time.perf_counter()
    watcher.stage("sample", candidates)
    codes = space.sample(candidates, seed, threads=threads)
    seconds = {"sample": time.perf_counter() - began, "encode": 0.0, "predict": 0.0}
    watcher.ended("sample", candidates, seconds["sample"])
    names = [name for name, cell in CELLS.items() if code_of(cell) is not None]
    known = np.array([code_of(CELLS[name]) for name in names], np.int64)
    picks = _Picks(train, control, seed, predictor.estimate(known, features.features(known)))
    began = time.perf_counter()
    watcher.stage("screen", candidates)
    for block, estimate, took in _estimated(codes, predictor, threads):
        picks.add(block, estimate)
        watcher.advance(len(block))
        seconds = {name: spent + took.get(name, 0.0) for name, spent in seconds.items()}
    seconds["screen"] = time.perf_counter() - began
    watcher.ended("screen", candidates, seconds["screen"])
    return Screening(
        candidates=candidates,
        passed=picks.passed,
        seconds={name: round(spent, 3) for name, spent in seconds.items()},
        threads=threads,
        known=_known(names, known, picks),
        picked=picks.chosen(),
    )


def _known(names: list[str], codes: Codes, picks: _Picks) -> list[Known]:
    estimate = picks.known
    rows = np.stack([estimate.usable, estimate.target, estimate.spread], axis=1).tolist()
    ranks = picks.ranks.tolist()
    return [
        Known(name, code, *_rounded(row), rank)
        for name, code, row, rank in zip(names, codes.tolist(), rows, ranks, strict=True)
    ]


def _estimated(
    codes: Codes, predictor: Predictor, threads: int
) -> Iterator[tuple[Codes, Estimate, dict[str, float]]]:
    """Blocks in order, with their estimates and the seconds of each stage."""

    def work(block: Codes) -> tuple[Codes, Estimate, dict[str, float]]:
        began = time.perf_counter()
        rows = features.features(block)
        encoded = time.perf_counter()
        estimate = predictor.estimate(block, rows)
        ended = time.perf_counter()
        return block, estimate, {"encode": encoded - began, "predict": ended - encoded}

    few = 4 * threads * features.BLOCK  # at a time: whatever is handed to the pool stays in memory
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(codes), few):
            yield from pool.map(work, features.blocks(codes[start : start + few]))
