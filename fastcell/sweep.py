"""Many runs, one after the other or in several processes: the same results either way.

A worker is a process with a pipe. It ends when the pipe closes, so none outlives a parent that was
killed; a worker that dies takes no more with it than the run in hand, which is tried once more.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import typing
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeAlias, cast

from .ir import Cell
from .results import Protocol, Result, Run

ATTEMPTS = 2
"""How often a run is begun when its worker keeps dying."""

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


def sweep(
    runs: Sequence[Run], train: Train, jobs: int, on_epoch: OnEpoch
) -> Generator[Result, None, None]:
    """The runs' results as they come, from `jobs` runs at a time.

    An error within a run is its result, "failed"; close the iterator to end the workers early.
    """
    if min(jobs, len(runs)) > 1:
        yield from _Workers(runs, train, jobs, on_epoch).results()
    else:
        for run in runs:
            yield _attempt(run, train, partial(on_epoch, run))


def _attempt(run: Run, train: Train, on_epoch: Callable[[int, float], None]) -> Result:
    """The run's result; an error becomes one, so that it is recorded and the sweep goes on."""
    try:
        return train(run.cell, run.task, run.protocol, run.seed, on_epoch)
    except Exception as error:
        message = " ".join(str(error).split())
        return Result.of(run, "failed", error=f"{type(error).__name__}: {message}")


def _work(pipe: Connection) -> None:
    """A worker's life: the training function, then runs in and epochs and results out."""
    try:
        train: Train = pipe.recv()
        while True:
            run: Run = pipe.recv()
            pipe.send(_attempt(run, train, lambda epoch, nmse: pipe.send((epoch, nmse))))
    except (EOFError, OSError):
        return  # the parent closed the pipe, or is gone


@dataclass
class _Worker:
    process: BaseProcess
    run: Run


class _Workers:
    """The parent's side: a queue of runs, and a worker by each pipe."""

    def __init__(self, runs: Sequence[Run], train: Train, jobs: int, on_epoch: OnEpoch) -> None:
        self.queue = deque(runs)
        self.train = train
        self.jobs = jobs
        self.on_epoch = on_epoch
        self.deaths = Counter[Run]()
        self.workers: dict[Connection, _Worker] = {}

    def results(self) -> Iterator[Result]:
        try:
            while self.queue or self.workers:
                while self.queue and len(self.workers) < self.jobs:
                    self.start(self.queue.popleft())
                for ready in wait(list(self.workers)):
                    result = self.receive(cast(Connection, ready))
                    if result is not None:
                        yield result
        finally:
            for pipe, worker in self.workers.items():
                worker.process.terminate()
                worker.process.join()
                pipe.close()

    def start(self, run: Run) -> None:
        """A new worker with its first run."""
        # A fresh interpreter: a fork of a process that has computed may hang in OpenMP.
        context = multiprocessing.get_context("spawn")
        pipe, far_end = context.Pipe()
        process = context.Process(target=_work, args=(far_end,), daemon=True)
        with _interrupts_ignored():
            process.start()
        far_end.close()
        self.workers[pipe] = _Worker(process, run)
        self.send(pipe, self.train)
        self.send(pipe, run)

    def send(self, pipe: Connection, message: object) -> None:
        """A worker that is gone is noticed when its pipe is read."""
        with suppress(OSError):
            pipe.send(message)

    def receive(self, pipe: Connection) -> Result | None:
        """Takes one message: an epoch, a result or the end of the pipe."""
        worker = self.workers[pipe]
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return self.bury(pipe)
        if not isinstance(message, Result):
            self.on_epoch(worker.run, *message)
            return None
        if self.queue:
            worker.run = self.queue.popleft()
            self.send(pipe, worker.run)
        else:
            self.dismiss(pipe)
        return message

    def dismiss(self, pipe: Connection) -> BaseProcess:
        worker = self.workers.pop(pipe)
        pipe.close()
        worker.process.join()
        return worker.process

    def bury(self, pipe: Connection) -> Result | None:
        """Puts a dead worker's run back in the queue, or records that it can't be done."""
        run = self.workers[pipe].run
        process = self.dismiss(pipe)
        self.deaths[run] += 1
        if self.deaths[run] < ATTEMPTS:
            self.queue.append(run)
            return None
        error = f"its process died {ATTEMPTS} times, last with exit code {process.exitcode}"
        return Result.of(run, "failed", error=error)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process started here ignores Ctrl-C: the parent, which gets it too, ends its workers."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signals
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
