"""The search: what it picks, that it resumes, that its table does not depend on how it ran."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from standins import OPTIONS, PREDICTOR, fake

from fastcell import StoreError, TaskError, space
from fastcell.library import CELLS
from fastcell.results import Protocol, Result, Run
from fastcell.search import (
    REFERENCES,
    Options,
    Progress,
    is_reference,
    ranked,
    search,
    train_all,
)
from fastcell.store import Store
from fastcell.training import train

TRAINED = 4 + 2 + 2 + len(REFERENCES)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The keys of the cells that `fake` trained, as a function."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return lambda: path.read_text().split()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as store:
        yield store


class Recorder(Progress):
    def __init__(self):
        self.seen = []

    def ended(self, name, count, seconds):
        self.seen.append((name, count))

    def training(self, runs, pending):
        self.seen.append(("training", len(runs), len(pending)))

    def epoch(self, run, epoch, nmse):
        self.seen.append(("epoch", run.cell.key))

    def finished(self, result):
        self.seen.append(("finished", result.cell_key))


def picked(store):
    return {code for codes in store.plan()["picked"].values() for code in codes}


def test_the_picked_and_the_references_are_trained(store, log):
    results = search(OPTIONS, store, fake, PREDICTOR)
    expected = {space.decode(code).key for code in picked(store)}
    expected |= {CELLS[name].key for name in REFERENCES}
    assert {result.cell_key for result in results} == set(log()) == expected
    assert len(expected) == TRAINED
    assert sorted(r.name for r in results if is_reference(r)) == sorted(REFERENCES)
    assert [r.best_validation for r in results] == sorted(r.best_validation for r in results)
    assert store.results() == sorted(results, key=lambda result: result.id)


def test_finalists_have_five_seeds(store, log):
    results = search(replace(OPTIONS, finalists=2), store, fake, PREDICTOR)
    by_seed = {
        seed: [result.cell_key for result in results if result.seed == seed]
        for seed in {result.seed for result in results}
    }
    best = by_seed.pop(OPTIONS.seed)[:2]
    expected = {*best, *(CELLS[name].key for name in REFERENCES)}
    assert sorted(by_seed) == [OPTIONS.seed + i for i in range(1, 5)]
    assert all(set(keys) == expected for keys in by_seed.values())


def test_a_second_search_trains_nothing(store, log):
    first = search(OPTIONS, store, fake, PREDICTOR)
    recorder = Recorder()
    assert search(OPTIONS, store, fake, PREDICTOR, progress=recorder) == first
    assert len(log()) == TRAINED
    assert recorder.seen == [("training", TRAINED, 0)]


def test_progress_is_told(store, log):
    recorder = Recorder()
    search(OPTIONS, store, fake, PREDICTOR, progress=recorder)
    kinds = [event[0] for event in recorder.seen]
    assert recorder.seen[:3] == [
        ("sample", 500),
        ("screen", 500),
        ("training", TRAINED, TRAINED),
    ]
    assert kinds[3:] == ["epoch", "finished"] * TRAINED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 600}, r"it holds \(candidates 500\), found candidates 600; give the same"),
        ({"train": 5, "seed": 8}, r"\(train 4, seed 7\), found train 5, seed 8"),
        ({"protocol": Protocol(epochs=3)}, r"\(epochs 2\), found epochs 3"),
    ],
)
def test_other_options_are_refused(store, log, change, message):
    search(OPTIONS, store, fake, PREDICTOR)
    with pytest.raises(StoreError, match=message):
        search(replace(OPTIONS, **change), store, fake, PREDICTOR)


@pytest.mark.parametrize(("candidates", "count"), [(-1, 0), (5, 6), (5, -1)])
def test_options_out_of_range(candidates, count):
    with pytest.raises(TaskError, match="expected a number"):
        Options(candidates, count)


def test_a_cell_wanted_twice_is_trained_once(store, log):
    run = Run(CELLS["rnn"], "adding", Protocol(), 0)
    assert len(train_all([run, run], store, fake, 1, Progress())) == 1
    assert len(log()) == 1


def test_ranking():
    def made(name, status, curve):
        run = Run(CELLS[name], "adding", Protocol(), 0)
        return Result.of(run, status, validation=curve)

    good, bad = made("rnn", "done", (0.1,)), made("gru", "done", (0.2,))
    late, early = made("lstm", "diverged", (0.01,)), made("mgu", "diverged", ())
    failed = made("lswm", "failed", ())
    assert ranked([failed, early, late, bad, good]) == [good, bad, late, early, failed]


def test_one_process_or_two_with_the_real_training(tmp_path):
    options = Options(10, 1, protocol=Protocol(epochs=1, batch_size=512, hidden_size=8))
    tables = []
    for jobs in (1, 2):
        with Store(tmp_path / f"{jobs}.sqlite") as store:
            results = search(options, store, train, PREDICTOR, jobs)
        tables.append([replace(result, seconds=0.0) for result in results])
    assert tables[0] == tables[1]
    assert len(tables[0]) == 4
    assert {result.status for result in tables[0]} <= {"done", "diverged"}


SEARCH = """
import sys
from fastcell.search import search
from fastcell.store import Store
from standins import OPTIONS, PREDICTOR, fake
if __name__ == "__main__":
    with Store(sys.argv[1]) as store:
        for result in search(OPTIONS, store, fake, PREDICTOR, int(sys.argv[2])):
            print(result.to_json())
"""


KILLS = 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_at_any_moment_it_resumes(tmp_path, log, monkeypatch, jobs):
    """Killed until it gets through: nothing recorded is trained again, nothing is left out."""
    monkeypatch.setenv("FAKE_SECONDS", "0.1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    script = tmp_path / "script.py"
    script.write_text(SEARCH)
    with Store(tmp_path / "undisturbed.sqlite") as store:
        expected = search(OPTIONS, store, fake, PREDICTOR)
    path, moments = tmp_path / "killed.sqlite", random.Random(jobs)
    kills, output = 0, ""
    while not output:
        with Store(path) as store:
            recorded = [result.cell_key for result in store.results()]
        begun = len(log())
        command = [sys.executable, str(script), str(path), str(jobs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            if kills < KILLS:
                wait_for_more(log, begun, process)
                time.sleep(moments.uniform(0, 0.2))
                process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
        kills += process.returncode == -signal.SIGKILL
        assert not set(log()[begun:]) & set(recorded)
    assert kills == KILLS
    assert [Result.from_json(line) for line in output.splitlines()] == expected


def wait_for_more(log, begun, process):
    while len(log()) == begun and process.poll() is None:
        time.sleep(0.01)
