"""Sweeps on a real Ray cluster of this machine: the same results, whatever dies on the way."""

import os
import sys
from contextlib import closing
from functools import partial

import pytest
from trainings import (
    PROTOCOL,
    attempts,
    ended,
    gone_wrong,
    killed,
    out_of_memory,
    quick,
    runs,
    sleeps,
    swept,
    troubled,
)

from fastcell.sweep import sweep

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install fastcell[ray]")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One for all tests of this file: starting it takes seconds. Its workers find `trainings`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_ray_gives_the_same_as_none(jobs):
    assert swept(3, quick, jobs, "ray") == swept(3, quick, 1)


def test_epochs_are_told_by_run():
    told = {}
    wanted = runs(2)

    def tell(run, *seen):
        told.setdefault(run.id, []).append(seen)

    assert len(list(sweep(wanted, quick, 2, tell, "ray"))) == len(wanted)
    for run in wanted:
        curve = quick(run.cell, "adding", PROTOCOL, run.seed, lambda *_: 0).validation
        assert told[run.id] == list(enumerate(curve, start=1))


TROUBLES = [
    (out_of_memory, "MemoryError"),
    (gone_wrong, "RuntimeError: what happened and where"),
    (killed, "ray.exceptions.WorkerCrashedError: The worker died unexpectedly"),
]


@pytest.mark.parametrize(("trouble", "error"), TROUBLES)
def test_a_run_that_fails_twice_is_recorded_and_fails_alone(tmp_path, trouble, error):
    found = swept(3, partial(troubled, tmp_path, 9, trouble), 2, "ray")
    for result, good in zip(found, swept(3, quick, 1), strict=True):
        if result.seed == 1:
            assert result.status == "failed"
            assert result.error.startswith(error)
        else:
            assert result == good
    assert attempts(tmp_path) == {0: {1}, 1: {2}, 2: {1}}


def test_a_run_whose_worker_dies_once_is_as_if_it_had_not(tmp_path):
    train = partial(troubled, tmp_path, 1, killed)
    assert swept(3, train, 2, "ray") == swept(3, quick, 1)
    assert attempts(tmp_path) == {0: {1}, 1: {2}, 2: {1}}


def test_closing_early_ends_the_workers():
    workers = set()

    def stop(run, epoch, nmse):
        if epoch == 1:
            workers.add(int(nmse))
        if len(workers) == 2:
            raise KeyboardInterrupt

    results = sweep(runs(2), sleeps, 2, stop, "ray")
    with pytest.raises(KeyboardInterrupt), closing(results):
        next(results)
    assert ended(workers)
