"""Many runs at once: the same results, whatever dies on the way."""

import multiprocessing
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from trainings import (
    PROTOCOL,
    attempts,
    diverges,
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

from fastcell import TaskError
from fastcell.library import rnn
from fastcell.results import Result
from fastcell.sweep import sweep


@pytest.mark.parametrize("jobs", [2, 3])
def test_processes_give_the_same_as_none(jobs):
    assert swept(4, quick, jobs) == swept(4, quick, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_epochs_are_told_by_run(jobs):
    told = {}
    wanted = runs(2)
    for _ in sweep(
        wanted, quick, jobs, lambda run, *seen: told.setdefault(run.id, []).append(seen)
    ):
        pass
    for run in wanted:
        curve = quick(run.cell, "adding", PROTOCOL, run.seed, lambda *_: 0).validation
        assert told[run.id] == list(enumerate(curve, start=1))


TROUBLES = [
    (1, out_of_memory, "MemoryError"),
    (1, gone_wrong, "RuntimeError: what happened and where"),
    (2, out_of_memory, "MemoryError"),
    (2, killed, "its worker died with exit code -9"),
]


@pytest.mark.parametrize(("jobs", "trouble", "error"), TROUBLES)
def test_a_run_that_fails_twice_is_recorded_and_fails_alone(tmp_path, jobs, trouble, error):
    found = swept(3, partial(troubled, tmp_path, 9, trouble), jobs)
    for result, good in zip(found, swept(3, quick, 1), strict=True):
        if result.seed == 1:
            assert (result.status, result.error) == ("failed", error)
        else:
            assert result == good
    assert attempts(tmp_path) == {0: {1}, 1: {2}, 2: {1}}


@pytest.mark.parametrize(("jobs", "trouble"), [case[:2] for case in TROUBLES])
def test_a_run_that_fails_once_is_as_if_it_had_not(tmp_path, jobs, trouble):
    assert swept(3, partial(troubled, tmp_path, 1, trouble), jobs) == swept(3, quick, 1)
    assert attempts(tmp_path) == {0: {1}, 1: {2}, 2: {1}}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_diverges_is_not_tried_again(tmp_path, jobs):
    results = swept(2, partial(diverges, tmp_path), jobs)
    assert {(r.seed, r.status) for r in results} == {(0, "done"), (1, "diverged")}
    assert attempts(tmp_path) == {0: {1}, 1: {1}}


def test_no_runs_no_results():
    assert list(sweep([], quick, 2, lambda *seen: None)) == []


def test_unknown_executor():
    with pytest.raises(TaskError, match="executor: expected one of local, ray; found 'slurm'"):
        next(sweep(runs(1), quick, 2, lambda *seen: None, "slurm"))


def test_closing_early_ends_the_workers():
    def stop(run, epoch, nmse):
        raise KeyboardInterrupt

    results = sweep(runs(2), sleeps, 2, stop)
    with pytest.raises(KeyboardInterrupt), closing(results):
        next(results)
    assert multiprocessing.active_children() == []


SWEEP_FOREVER = """
import trainings
if __name__ == "__main__":
    tell = lambda run, epoch, nmse: epoch == 1 and print(int(nmse), flush=True)
    list(trainings.sweep(trainings.runs(1), trainings.sleeps, 2, tell))
"""


def test_no_worker_outlives_a_killed_parent(tmp_path):
    script = tmp_path / "forever.py"
    script.write_text(SWEEP_FOREVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        workers = {int(parent.stdout.readline()) for _ in range(2)}
        parent.kill()
    assert ended(workers)


def test_result_of_a_failed_run_is_whole(tmp_path):
    train = partial(troubled, tmp_path, 2, gone_wrong)
    failed = next(iter(sweep(runs(2)[1:2], train, 1, lambda *seen: None)))
    assert failed.parameters == rnn.parameter_count(64, 64)
    assert Result.from_json(failed.to_json()) == failed
    assert replace(failed, error=None).id == runs(2)[1].id
