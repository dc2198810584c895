"""Screening in blocks against everything at once; its picks against their definitions."""

import json

import numpy as np
import pytest
from standins import PREDICTOR

from fastcell import features, library, space
from fastcell.screening import THRESHOLD, Screening, screen
from fastcell.search import Progress

N, TRAIN, CONTROL, SEED = 20_000, 30, 25, 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(features, "BLOCK", 999)


def screened(candidates=N, threads=1, watcher=None) -> Screening:
    return screen(candidates, TRAIN, CONTROL, SEED, PREDICTOR, threads, watcher or Progress())


def written(codes):
    """The codes that the cells have once they are written down."""
    return [int(space.encode(space.decode(int(code)))) for code in codes]


@pytest.fixture(scope="module")
def everything():
    codes = space.sample(N, SEED)
    return codes, PREDICTOR.estimate(codes, np.empty((N, 0)))


def first_of_each_function(codes, count):
    _, first = np.unique(space.functional_key(codes), return_index=True)
    return codes[np.sort(first)][:count]


def test_the_top_is_the_best_of_those_that_pass(everything):
    codes, estimate = everything
    passed = estimate.usable >= THRESHOLD
    best = codes[passed][np.argsort(estimate.target[passed])]
    screening = screened()
    assert screening.passed == passed.sum()
    assert list(screening.picked["top"]) == written(first_of_each_function(best, TRAIN))


def test_estimates_are_those_of_the_picked(everything):
    codes, estimate = everything
    place = dict(zip(written(codes[:N]), range(N), strict=True))
    picked = screened().picked
    for code, (usable, target, spread) in [each for g in picked.values() for each in g.items()]:
        if code in codes:  # others are written another way
            i = place[code]
            assert (usable, spread) == (pytest.approx(estimate.usable[i], abs=1e-6), 0.5)
            assert target == pytest.approx(estimate.target[i], abs=1e-6)


def test_controls_are_fair(everything):
    """Over many seeds every tenth of the candidates, by estimate, is drawn as often."""
    counts = {"passing": np.zeros(10), "random": np.zeros(10)}
    for seed in range(40):
        picked = screen(500, 0, CONTROL, seed, PREDICTOR, 1, Progress()).picked
        for name, tenths in counts.items():
            assert len(picked[name]) == CONTROL
            estimates = np.array([usable for usable, _, _ in picked[name].values()])
            if name == "passing":
                assert (estimates >= THRESHOLD).all()
                estimates = (estimates - THRESHOLD) / (1 - THRESHOLD)
            tenths += np.histogram(estimates, bins=10, range=(0, 1))[0]
    for tenths in counts.values():
        expected = 40 * CONTROL / 10
        assert ((tenths - expected) ** 2 / expected).sum() < 40  # 9 degrees: p ~ 1e-5


def test_neither_blocks_nor_threads_matter(monkeypatch):
    one = screened()
    monkeypatch.setattr(features, "BLOCK", 1 << 20)
    for threads in (1, 3):
        other = screened(threads=threads)
        assert (other.picked, other.known, other.passed) == (one.picked, one.known, one.passed)


def test_known_cells_and_their_ranks(everything):
    _, estimate = everything
    known = {cell.name: cell for cell in screened().known}
    assert set(known) >= {"lstm", "adding_dag"}
    passed = estimate.target[estimate.usable >= THRESHOLD]
    for name, cell in known.items():
        assert cell.code == space.encode(library.CELLS[name])
        own = PREDICTOR.estimate(np.array([cell.code]), np.empty((1, 0))).target
        assert cell.rank == 1 + (passed < own).sum()


def test_fewer_pass_than_are_wanted():
    screening = screened(candidates=40)
    assert 0 < len(screening.picked["top"]) <= screening.passed < TRAIN
    assert screened(candidates=0).picked == {"top": {}, "passing": {}, "random": {}}


def test_the_plan_is_json():
    plan = screened().as_plan()
    assert json.loads(json.dumps(plan)) == plan
    assert {str(code) for codes in plan["picked"].values() for code in codes} == set(
        plan["estimates"]
    )


class Stages(Progress):
    def __init__(self):
        self.seen = []
        self.advanced = 0

    def stage(self, name, total):
        self.seen.append((name, total))

    def advance(self, count):
        self.advanced += count

    def ended(self, name, count, seconds):
        self.seen.append((name, count, seconds > 0))


def test_progress_is_told():
    stages = Stages()
    screened(watcher=stages)
    assert stages.seen == [
        ("sample", N),
        ("sample", N, True),
        ("screen", N),
        ("screen", N, True),
    ]
    assert stages.advanced == N
