"""What an executor is, and the plainest one, which trains here and now."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import partial
from traceback import format_exception_only
from typing import TypeAlias

from ..ir import Cell
from ..results import Protocol, Result, Run

OnEpoch: TypeAlias = Callable[[Run, int, float], None]
"""Called after each epoch of a run with its number, from 1, and its validation NMSE."""


class Train(typing.Protocol):
    """The training function: a module's own, so that a worker finds it by name."""

    def __call__(
        self,
        cell: Cell,
        task: str,
        protocol: Protocol,
        seed: int,
        on_epoch: Callable[[int, float], None],
    ) -> Result: ...


class Executor(typing.Protocol):
    """Begins runs when told to, and tells how they go."""

    def start(self, run: Run) -> None:
        """Begins a run."""

    def ended(self) -> Iterator[tuple[Run, Result]]:
        """Waits until a run tells something: epochs are passed on, runs that ended come out."""

    def close(self) -> None:
        """Ends the runs in hand and all that was set up for them."""


def attempt(run: Run, train: Train, on_epoch: Callable[[int, float], None]) -> Result:
    """The run's result; an error becomes one, so that it is recorded and the sweep goes on."""
    try:
        return train(run.cell, run.task, run.protocol, run.seed, on_epoch)
    except Exception as error:
        return failure(run, *format_exception_only(error))


def failure(run: Run, *lines: str) -> Result:
    """The result of a run that failed, its error on one line."""
    return Result.of(run, "failed", error=" ".join(" ".join(lines).split()))


class Here:
    """One run at a time, in this process."""

    def __init__(self, train: Train, on_epoch: OnEpoch) -> None:
        self.train = train
        self.on_epoch = on_epoch

    def start(self, run: Run) -> None:
        self.run = run

    def ended(self) -> Iterator[tuple[Run, Result]]:
        yield self.run, attempt(self.run, self.train, partial(self.on_epoch, self.run))

    def close(self) -> None:
        pass
