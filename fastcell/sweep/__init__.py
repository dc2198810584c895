"""Many runs at a time, here, in processes or on a Ray cluster: the same results each way.

An executor begins runs and tells of them (executor.py). Which run is next, and what becomes of one
that fails, is decided here alone. A run fails by an error of its own or with its worker, which may
be killed, out of memory or on a machine that is gone; it is tried once more, after the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing

from ..errors import TaskError
from ..results import Result, Run
from .executor import Executor, Here, OnEpoch, Train
from .processes import Processes

__all__ = ["EXECUTORS", "OnEpoch", "Train", "sweep"]

EXECUTORS = ("local", "ray")
"""Processes of this machine; a Ray cluster, with the extra of that name."""


def sweep(
    runs: Sequence[Run], train: Train, jobs: int, on_epoch: OnEpoch, executor: str = "local"
) -> Generator[Result, None, None]:
    """The runs' results as they come, from `jobs` runs at a time.

    A run that fails twice has a result too, "failed", with its last error. Close the iterator to
    end the workers early. Raises TaskError for an executor that is unknown or not installed.
    """
    waiting, failed = deque(runs), set[Run]()
    in_hand = 0
    with closing(_executor(executor, train, min(jobs, len(runs)), on_epoch)) as workers:
        while waiting or in_hand:
            while waiting and in_hand < jobs:
                workers.start(waiting.popleft())
                in_hand += 1
            for run, result in workers.ended():
                in_hand -= 1
                if result.status == "failed" and run not in failed:
                    failed.add(run)
                    waiting.append(run)
                else:
                    yield result


def _executor(name: str, train: Train, jobs: int, on_epoch: OnEpoch) -> Executor:
    if name == "local":
        return Processes(train, on_epoch) if jobs > 1 else Here(train, on_epoch)
    if name == "ray":
        return _ray(train, on_epoch)
    raise TaskError(f"executor: expected one of {', '.join(EXECUTORS)}; found {name!r}")


def _ray(train: Train, on_epoch: OnEpoch) -> Executor:
    # Imported here: it is an extra, and slow to import.
    try:
        from .cluster import Cluster
    except ModuleNotFoundError as error:
        raise TaskError(
            f"executor ray: expected the extra ray, found no {error.name};"
            " pip install 'fastcell[ray]'"
        ) from None
    return Cluster(train, on_epoch)
