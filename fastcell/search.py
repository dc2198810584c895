"""The search: sample cells of the space, pick some, train them beside known cells, compare.

Everything but the time it takes follows from the options, and each result is recorded when it is
there: a search that was ended at any moment and is run again goes on from where it was and comes
to the same table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from . import space
from .errors import StoreError, TaskError
from .library import CELLS
from .results import DEFAULT_PROTOCOL, Protocol, Result, Run
from .store import Store
from .sweep import Train, sweep

REFERENCES = ("rnn", "lstm", "adding_dag")
"""Cells of the library that every search trains too, to compare with."""

_RANKS = {"done": 0, "plateau": 1, "diverged": 2, "failed": 3}


@dataclass(frozen=True)
class Options:
    """What a search does. Raises TaskError for a number out of range."""

    candidates: int
    train: int
    seed: int = 0
    task: str = "adding"
    protocol: Protocol = DEFAULT_PROTOCOL

    def __post_init__(self) -> None:
        if self.candidates < 0:
            raise TaskError(f"candidates: expected a number >= 0, found {self.candidates}")
        if not 0 <= self.train <= self.candidates:
            raise TaskError(
                f"train: expected a number of the {self.candidates:,} candidates, found"
                f" {self.train:,}"
            )

    def as_plan(self) -> dict[str, Any]:
        """The options by name, the protocol's too."""
        options = asdict(self)
        protocol = options.pop("protocol")
        return {**options, **protocol, "space": space.SPACE_VERSION}


class Progress:
    """What a search tells on its way; each does nothing unless overridden."""

    def sampled(self, candidates: int, seconds: float) -> None:
        """The candidates are drawn."""

    def training(self, runs: Sequence[Run], pending: Sequence[Run]) -> None:
        """These runs are wanted, and those of them have no result yet."""

    def epoch(self, run: Run, epoch: int, nmse: float) -> None:
        """A run has done an epoch, counted from 1, with this validation NMSE."""

    def finished(self, result: Result) -> None:
        """A run's result is recorded."""


def search(
    options: Options, store: Store, train: Train, jobs: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Samples, picks, trains; the results from best to worst, the references among them.

    `train` is the training function, `jobs` the number of processes. Raises StoreError when the
    store holds a search with other options.
    """
    progress = progress or Progress()
    codes = _picked(options, store, progress)
    cells = [CELLS[name] for name in REFERENCES] + [space.decode(code) for code in codes]
    runs = [Run(cell, options.task, options.protocol, options.seed) for cell in cells]
    return train_all(runs, store, train, jobs, progress)


def pick(candidates: int, train: int, seed: int) -> list[int]:
    """Which candidates to train, by position: a uniform sample without replacement."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return sorted(generator.choice(candidates, size=train, replace=False).tolist())


def train_all(
    runs: Iterable[Run], store: Store, train: Train, jobs: int, progress: Progress
) -> list[Result]:
    """Trains what has no result yet and records it; the results of all runs, best first."""
    wanted = {run.id: run for run in runs}
    pending = [run for id, run in wanted.items() if store.get(id) is None]
    progress.training(list(wanted.values()), pending)
    with closing(sweep(pending, train, jobs, progress.epoch)) as results:
        for result in results:
            store.add(result)
            progress.finished(result)
    recorded = (store.get(id) for id in wanted)
    return ranked(result for result in recorded if result is not None)


def ranked(results: Iterable[Result]) -> list[Result]:
    """By best validation NMSE, those that ended early last."""
    return sorted(results, key=_rank)


def _rank(result: Result) -> tuple[int, float, Any]:
    best = result.best_validation
    return _RANKS[result.status], float("inf") if best is None else best, result.id


def is_reference(result: Result) -> bool:
    """Whether the cell is one of the references, whatever its name."""
    return result.cell_key in {CELLS[name].key for name in REFERENCES}


def _picked(options: Options, store: Store, progress: Progress) -> list[int]:
    """Codes of the cells to train, from the store's plan once there is one."""
    recorded = store.plan()
    if not recorded:
        began = time.perf_counter()
        codes = space.sample(options.candidates, options.seed)
        progress.sampled(options.candidates, time.perf_counter() - began)
        picked = codes[pick(options.candidates, options.train, options.seed)].tolist()
        recorded = store.set_plan({"options": options.as_plan(), "codes": picked})
    _check_same(options.as_plan(), recorded["options"], store)
    return list(recorded["codes"])


def _check_same(asked: dict[str, Any], recorded: dict[str, Any], store: Store) -> None:
    differences = [name for name in asked if asked[name] != recorded.get(name)]
    if differences:
        theirs = ", ".join(f"{name} {recorded.get(name)}" for name in differences)
        ours = ", ".join(f"{name} {asked[name]}" for name in differences)
        raise StoreError(
            f"{store.path}: expected the options of the search it holds ({theirs}), found {ours};"
            " give the same ones, or another folder"
        )
