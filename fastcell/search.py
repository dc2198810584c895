"""The search: screen cells of the space, train the most promising beside known cells, compare.

Everything but the time it takes follows from the options, and each result is recorded when it is
there: a search that was ended at any moment and is run again goes on from where it was and comes
to the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from . import space
from .errors import StoreError, TaskError
from .ir import Cell
from .library import CELLS
from .results import DEFAULT_PROTOCOL, Protocol, Result, Run
from .screening import Predictor, screen
from .store import Store
from .sweep import Train, sweep

REFERENCES = ("rnn", "lstm", "adding_dag")
"""Cells of the library that every search trains too, to compare with."""

SEEDS = 5
"""Seeds of a finalist, from the search's own up."""

_RANKS = {"done": 0, "plateau": 1, "diverged": 2, "failed": 3}


@dataclass(frozen=True)
class Options:
    """What a search does. Raises TaskError for a number out of range."""

    candidates: int
    train: int
    """How many of the most promising are trained."""
    control: int = 0
    """How many of those that pass are trained as well, at random, and how many of all."""
    finalists: int = 0
    """How many of the best are trained again, with SEEDS seeds in all; so are the references."""
    seed: int = 0
    task: str = "adding"
    protocol: Protocol = DEFAULT_PROTOCOL

    def __post_init__(self) -> None:
        if self.candidates < 0:
            raise TaskError(f"candidates: expected a number >= 0, found {self.candidates}")
        for name in ("train", "control"):
            count = getattr(self, name)
            if not 0 <= count <= self.candidates:
                raise TaskError(
                    f"{name}: expected a number of the {self.candidates:,} candidates, found"
                    f" {count:,}"
                )
        if self.finalists < 0:
            raise TaskError(f"finalists: expected a number >= 0, found {self.finalists}")

    def as_plan(self) -> dict[str, Any]:
        """The options by name, the protocol's too."""
        options = asdict(self)
        protocol = options.pop("protocol")
        return {**options, **protocol, "space": space.SPACE_VERSION}


class Progress:
    """What a search tells on its way; each does nothing unless overridden."""

    def stage(self, name: str, total: int) -> None:
        """A stage of the screening begins, over so many candidates."""

    def advance(self, count: int) -> None:
        """So many more candidates went through it."""

    def ended(self, name: str, count: int, seconds: float) -> None:
        """All went through it."""

    def training(self, runs: Sequence[Run], pending: Sequence[Run]) -> None:
        """These runs are wanted, and those of them have no result yet."""

    def epoch(self, run: Run, epoch: int, nmse: float) -> None:
        """A run has done an epoch, counted from 1, with this validation NMSE."""

    def finished(self, result: Result) -> None:
        """A run's result is recorded."""


def search(
    options: Options,
    store: Store,
    train: Train,
    predictor: Predictor,
    jobs: int = 1,
    progress: Progress | None = None,
    executor: str = "local",
) -> list[Result]:
    """Screens, picks, trains, trains finalists again; the results from best to worst.

    `train` is the training function, `jobs` the number of processes, and of threads while
    screening. Raises StoreError when the store holds a search with other options.
    """
    progress = progress or Progress()
    picked = _picked(options, store, predictor, jobs, progress)
    codes = dict.fromkeys(code for group in picked.values() for code in group)
    references = [CELLS[name] for name in REFERENCES]
    cells = references + [space.decode(code) for code in codes]
    runs = [Run(cell, options.task, options.protocol, options.seed) for cell in cells]
    results = train_all(runs, store, train, jobs, progress, executor)
    if options.finalists:
        again = _finals(runs, results, references, options)
        results = train_all([*runs, *again], store, train, jobs, progress, executor)
    return results


def _finals(
    runs: Sequence[Run], results: Sequence[Result], references: Sequence[Cell], options: Options
) -> list[Run]:
    """The best cells and the references with the other seeds."""
    done = [result.cell_key for result in results if result.status == "done"]
    keys = [*done[: options.finalists], *(cell.key for cell in references)]
    cells = {run.cell.key: run.cell for run in runs}
    return [
        Run(cells[key], options.task, options.protocol, options.seed + i)
        for key in dict.fromkeys(keys)
        for i in range(1, SEEDS)
    ]


def train_all(
    runs: Iterable[Run],
    store: Store,
    train: Train,
    jobs: int,
    progress: Progress,
    executor: str = "local",
) -> list[Result]:
    """Trains what has no result yet and records it; the results of all runs, best first."""
    wanted = {run.id: run for run in runs}
    pending = [run for id, run in wanted.items() if store.get(id) is None]
    progress.training(list(wanted.values()), pending)
    with closing(sweep(pending, train, jobs, progress.epoch, executor)) as results:
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


def _picked(
    options: Options, store: Store, predictor: Predictor, threads: int, progress: Progress
) -> dict[str, list[int]]:
    """Codes of the cells to train by group, from the store's plan once there is one."""
    asked = {**options.as_plan(), "predictor": predictor.key}
    recorded = store.plan()
    if not recorded:
        screening = screen(
            options.candidates,
            options.train,
            options.control,
            options.seed,
            predictor,
            threads,
            progress,
        )
        plan = screening.as_plan()
        plan["screening"]["predictor"] = predictor.metadata
        recorded = store.set_plan({"options": asked, **plan})
    _check_same(asked, recorded["options"], store)
    return dict(recorded["picked"])


def _check_same(asked: dict[str, Any], recorded: dict[str, Any], store: Store) -> None:
    differences = [name for name in asked if asked[name] != recorded.get(name)]
    if differences:
        theirs = ", ".join(f"{name} {recorded.get(name)}" for name in differences)
        ours = ", ".join(f"{name} {asked[name]}" for name in differences)
        raise StoreError(
            f"{store.path}: expected the options of the search it holds ({theirs}), found {ours};"
            " give the same ones, or another folder"
        )
