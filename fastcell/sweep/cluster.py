"""Runs on a Ray cluster: a task for each run, which streams its epochs and then its result.

The cluster is the one at hand (RAY_ADDRESS, or one that runs on this machine), else a new one of
this machine's cores. fastcell has to be installed wherever it computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from logging import WARNING
from queue import SimpleQueue
from traceback import format_exception_only
from typing import Any, TypeAlias

import ray
from ray.exceptions import RayError

from ..results import Result, Run
from .executor import OnEpoch, Train, attempt, failure

Message: TypeAlias = tuple[int, float] | Result
"""An epoch and its validation NMSE, or what comes last."""


def _work(train: Train, run: Run) -> Iterator[Message]:
    """A task: trains in a thread, so that what the training tells can be handed on as it comes."""
    told = SimpleQueue[tuple[int, float] | Future[Result]]()
    with ThreadPoolExecutor(1) as thread:
        training = thread.submit(attempt, run, train, lambda *epoch: told.put(epoch))
        training.add_done_callback(told.put)
        while not isinstance(message := told.get(), Future):
            yield message
        yield training.result()


class Cluster:
    """The driver's side: the streams of the tasks in hand, with their runs."""

    def __init__(self, train: Train, on_epoch: OnEpoch) -> None:
        self.train = train
        self.on_epoch = on_epoch
        self.streams: dict[Any, Run] = {}
        self.started = not ray.is_initialized()
        if self.started:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=WARNING)
        # No retries of Ray's own: the sweep counts them, the same for every executor.
        self.work = ray.remote(num_cpus=1, max_retries=0)(_work)

    def start(self, run: Run) -> None:
        self.streams[self.work.remote(self.train, run)] = run

    def ended(self) -> Iterator[tuple[Run, Result]]:
        ready, _ = ray.wait(list(self.streams))
        for stream in ready:
            run = self.streams[stream]
            message = _next(stream, run)
            if isinstance(message, Result):
                del self.streams[stream]
                yield run, message
            else:
                self.on_epoch(run, *message)

    def close(self) -> None:
        for stream in self.streams:
            ray.cancel(stream, force=True)
        if self.started:
            ray.shutdown()


def _next(stream: Any, run: Run) -> Message:
    """What the task tells next; when its worker or its machine is gone, that it failed."""
    try:
        message: Message = ray.get(next(stream))
    except RayError as error:
        return failure(run, *format_exception_only(error))
    return message
