"""Runs in processes of this machine.

A worker is a process with a pipe. It ends when the pipe closes, so none outlives a parent that was
killed; a worker that dies takes no more with it than the run in hand.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from ..results import Result, Run
from .executor import OnEpoch, Train, attempt, failure


def _work(pipe: Connection) -> None:
    """A worker's life: the training function, then runs in and epochs and results out."""
    try:
        train: Train = pipe.recv()
        while True:
            run: Run = pipe.recv()
            pipe.send(attempt(run, train, lambda epoch, nmse: pipe.send((epoch, nmse))))
    except (EOFError, OSError):
        return  # the parent closed the pipe, or is gone


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection

    def send(self, message: object) -> None:
        """A worker that is gone is noticed when its pipe is read."""
        with suppress(OSError):
            self.pipe.send(message)

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


class Processes:
    """The parent's side: workers at work, by their pipes, with their runs; and idle ones."""

    def __init__(self, train: Train, on_epoch: OnEpoch) -> None:
        self.train = train
        self.on_epoch = on_epoch
        self.busy: dict[Connection, tuple[_Worker, Run]] = {}
        self.idle: list[_Worker] = []

    def start(self, run: Run) -> None:
        worker = self.idle.pop() if self.idle else self.hire()
        self.busy[worker.pipe] = worker, run
        worker.send(run)

    def hire(self) -> _Worker:
        # A fresh interpreter: a fork of a process that has computed may hang in OpenMP.
        context = multiprocessing.get_context("spawn")
        pipe, far_end = context.Pipe()
        process = context.Process(target=_work, args=(far_end,), daemon=True)
        with _interrupts_ignored():
            process.start()
        far_end.close()
        worker = _Worker(process, pipe)
        worker.send(self.train)
        return worker

    def ended(self) -> Iterator[tuple[Run, Result]]:
        for ready in wait(list(self.busy)):
            pipe = cast(Connection, ready)
            _, run = self.busy[pipe]
            result = self.receive(pipe)
            if result is not None:
                yield run, result

    def receive(self, pipe: Connection) -> Result | None:
        """Takes one message: an epoch, a result or the end of the pipe."""
        worker, run = self.busy[pipe]
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            del self.busy[pipe]
            pipe.close()
            worker.process.join()
            return failure(run, f"its worker died with exit code {worker.process.exitcode}")
        if isinstance(message, Result):
            del self.busy[pipe]
            self.idle.append(worker)
            return message
        self.on_epoch(run, *message)
        return None

    def close(self) -> None:
        for worker in [*self.idle, *(worker for worker, _ in self.busy.values())]:
            worker.end()


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
