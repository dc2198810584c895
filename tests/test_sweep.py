"""Many runs at once: the same results, whatever dies on the way.

The training functions here stand in for the real one: a worker finds them by name.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import fastcell
from fastcell.library import rnn
from fastcell.results import Protocol, Result, Run
from fastcell.sweep import sweep

CELLS = [rnn, fastcell.parse("def late(x, h):\n    return tanh(linear(x) + h)")]
PROTOCOL = Protocol(epochs=3)


def runs(seeds):
    return [Run(cell, "adding", PROTOCOL, seed) for cell in CELLS for seed in range(seeds)]


def quick(cell, task, protocol, seed, on_epoch):
    """A curve that depends on the run alone."""
    curve = tuple((1 + seed) / (epoch + len(cell.nodes)) for epoch in range(protocol.epochs))
    for epoch, value in enumerate(curve, start=1):
        on_epoch(epoch, value)
    run = Run(cell, task, protocol, seed)
    return Result.of(run, "done", epochs=protocol.epochs, validation=curve, test=curve[-1])


def picky(cell, task, protocol, seed, on_epoch):
    if seed == 1:
        raise RuntimeError("out of\nmemory")
    return quick(cell, task, protocol, seed, on_epoch)


def dies_once(cell, task, protocol, seed, on_epoch):
    """Ends its process at the first attempt at seed 1; the marker is in the folder at hand."""
    marker = Path(f"died-{cell.name}")
    if seed == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return quick(cell, task, protocol, seed, on_epoch)


def dies(cell, task, protocol, seed, on_epoch):
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return quick(cell, task, protocol, seed, on_epoch)


def sleeps(cell, task, protocol, seed, on_epoch):
    on_epoch(1, float(os.getpid()))
    time.sleep(0.2)
    on_epoch(2, 0.5)
    return sleeps(cell, task, protocol, seed, on_epoch)  # for as long as it lives


def by_id(results):
    found = {result.id: result for result in results}
    return [found[id] for id in sorted(found)]


def swept(count, train, jobs):
    wanted = runs(count)
    results = list(sweep(wanted, train, jobs, lambda run, epoch, nmse: None))
    assert len(results) == len(wanted)
    return by_id(results)


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
        values = [nmse for _, nmse in told[run.id]]
        assert values == list(
            quick(run.cell, "adding", PROTOCOL, run.seed, lambda *_: 0).validation
        )
        assert [epoch for epoch, _ in told[run.id]] == [1, 2, 3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_a_result(jobs):
    good = swept(3, quick, 1)
    for result, other in zip(swept(3, picky, jobs), good, strict=True):
        if result.seed == 1:
            assert result.status == "failed"
            assert result.error == "RuntimeError: out of memory"
        else:
            assert result == other


def test_a_run_whose_worker_dies_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert swept(3, dies_once, 2) == swept(3, quick, 1)
    assert len(list(tmp_path.iterdir())) == len(CELLS)


def test_a_run_that_keeps_killing_its_worker_fails_alone():
    for result, other in zip(swept(3, dies, 2), swept(3, quick, 1), strict=True):
        if result.seed == 1:
            assert result.status == "failed"
            assert result.error == "its worker died with exit code -9"
        else:
            assert result == other


def test_closing_early_ends_the_workers():
    def stop(run, epoch, nmse):
        raise KeyboardInterrupt

    results = sweep(runs(2), sleeps, 2, stop)
    with pytest.raises(KeyboardInterrupt), closing(results):
        next(results)
    assert multiprocessing.active_children() == []


SWEEP_FOREVER = """
import test_sweep
if __name__ == "__main__":
    tell = lambda run, epoch, nmse: epoch == 1 and print(int(nmse), flush=True)
    list(test_sweep.sweep(test_sweep.runs(1), test_sweep.sleeps, 2, tell))
"""


def test_no_worker_outlives_a_killed_parent(tmp_path):
    script = tmp_path / "forever.py"
    script.write_text(SWEEP_FOREVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        workers = {int(parent.stdout.readline()) for _ in range(2)}
        parent.kill()
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


def is_running(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_result_of_a_failed_run_is_whole():
    failed = next(iter(sweep(runs(2)[1:2], picky, 1, lambda *seen: None)))
    assert failed.parameters == rnn.parameter_count(64, 64)
    assert Result.from_json(failed.to_json()) == failed
    assert replace(failed, error=None).id == runs(2)[1].id
