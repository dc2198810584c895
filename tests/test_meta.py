"""The meta-model: scores against their definitions, candidates on labels with a known answer."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from space_oracle import GATES, unpack

from fastcell import CodeError, StoreError, features, library, space
from fastcell.labels import SHIPPED, Label
from fastcell.meta.boosting import BoostingModel, _trees
from fastcell.meta.dataset import Dataset, dataset, target
from fastcell.meta.fit import (
    CANDIDATES,
    compare,
    cross_validate,
    folds,
    learning_curve,
    noise_ceiling,
)
from fastcell.meta.forest import Forest
from fastcell.meta.graph import adjacency
from fastcell.meta.model import Estimate
from fastcell.meta.scores import auc, calibration_error, kendall, recall_top, score
from fastcell.predictor import Predictor, provenance, shipped, write_predictor

GROWTH = features.names().index("additive growth")
CODES = np.unique(space.sample(240, 5))


def label(code, best, seed=0, status="done"):
    return Label(int(code), seed, 0, status, 3, best, best, 1.0, ())


def made_up():
    """A cell whose states grow never learns; the others do, the better the fewer sources h' has."""
    rows = features.features(CODES)
    terms = rows[:, features.names().index("terms of h'")]
    errors = np.where(rows[:, GROWTH] > 1, None, 10.0 ** (terms - 6))
    return [label(code, error) for code, error in zip(CODES, errors, strict=True)]


LABELS = made_up()
DATA = dataset(LABELS)


def test_targets():
    assert target(label(1, None)) == target(label(1, 1e29)) == target(label(1, 1.0)) == 0
    assert target(label(1, 1e-3)) == pytest.approx(-3)
    assert target(label(1, 0.0)) == pytest.approx(-7)


def test_a_cell_with_several_seeds_is_one_row():
    code = int(CODES[0])
    runs = [label(code, 1e-2), label(code, 1e-4, seed=1), label(code, None, 2, "failed")]
    data = dataset(runs)
    assert data.codes.tolist() == [code]
    assert data.targets.tolist() == pytest.approx([-3])
    assert data.usable.tolist() == [True]


QUICK = ["network", "boosting"]
NAMES = [*QUICK, pytest.param("graph", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", NAMES)
def test_candidates_find_what_is_there(name):
    (scores,) = learning_curve(CANDIDATES[name], DATA, [180]).values()
    assert scores.auc > 0.9
    assert scores.kendall > 0.4


@pytest.mark.parametrize("name", NAMES)
def test_candidates_find_nothing_where_nothing_is(name):
    shuffled = np.random.default_rng(0).permutation(DATA.targets)
    data = Dataset(DATA.codes, DATA.rows, shuffled)
    (scores,) = learning_curve(CANDIDATES[name], data, [180]).values()
    assert abs(scores.kendall) < 0.3


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_is_its_seed(name):
    torch.manual_seed(3)
    before, some = torch.get_rng_state(), DATA[np.arange(50)]
    estimates = []
    for seed in (1, 1, 2):
        model = CANDIDATES[name]()
        model.fit(some, seed)
        estimates.append(model.predict(DATA.codes, DATA.rows).target)
    assert np.array_equal(estimates[0], estimates[1])
    assert not np.array_equal(estimates[0], estimates[2])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", QUICK)
def test_nobody_judges_what_it_has_seen(name):
    """A model that has seen a cell knows its made-up error; one that has not can't."""
    noise = np.random.default_rng(1).uniform(-6, 0, 60).astype(np.float32)
    data = Dataset(DATA.codes[:60], DATA.rows[:60], noise)
    assert abs(cross_validate(CANDIDATES[name], data).scores.kendall) < 0.3


def test_folds_part_the_cells():
    parts = folds(13, seed=0)
    assert sorted(np.concatenate(parts)) == list(range(13))
    assert len(parts) == 5
    assert len(folds(3, seed=0)) == 3


def test_adjacency_is_what_the_text_says():
    code = int(space.encode(library.adding_dag))
    context, value, summed = adjacency(np.array([code]))[0, :3].numpy()
    names = [*"xhcg", "gate0", "gate1", "gate2", "add", "h'", "c'"]

    def read(matrix, node):
        return {names[j] for j in np.flatnonzero(matrix[names.index(node)])}

    cell = unpack(code)
    for gate in GATES:
        assert (read(context, gate), read(value, gate)) == (cell[gate][0], {cell[gate][1]})
    assert all(read(summed, node) == cell[node] for node in ("add", "h'", "c'"))


def test_scores_by_definition():
    rng = np.random.default_rng(1)
    truth, guess = rng.random(40) < 0.4, rng.random(40).round(1)
    pairs = [(a > b) + (a == b) / 2 for a in guess[truth] for b in guess[~truth]]
    assert auc(truth, guess) == pytest.approx(np.mean(pairs))
    assert np.isnan(auc(np.ones(3, bool), guess[:3]))
    assert calibration_error(truth, truth.astype(float)) == 0
    assert calibration_error(truth, np.full(40, 0.75)) == pytest.approx(0.75 - truth.mean())
    values = rng.random(100)
    assert recall_top(values, values) == 1
    assert recall_top(values, -values) == 0
    assert kendall(values, values**3) == pytest.approx(1)


def test_perfect_estimates_score_perfectly():
    estimate = Estimate(DATA.usable.astype(np.float32), DATA.targets, DATA.targets * 0)
    scores = score(DATA, estimate)
    assert (scores.auc, scores.calibration_error, scores.recall_top) == (1, 0, 1)
    assert scores.kendall == pytest.approx(1)
    assert scores.spearman_usable == pytest.approx(1)


def test_noise_ceiling():
    assert noise_ceiling(LABELS) == {"pairs": 0}
    again = [replace(each, seed=1) for each in LABELS]
    assert noise_ceiling([*LABELS, *again])["kendall"] == pytest.approx(1)


@pytest.mark.slow
def test_comparison_is_json():
    report = compare(LABELS, DATA)
    assert json.loads(json.dumps(report))["best"] in CANDIDATES
    assert report["scores"].keys() == CANDIDATES.keys()
    assert max(map(int, report["learning_curve"])) == int(0.8 * len(DATA))


def test_a_forest_is_what_lightgbm_fitted():
    """Also at the thresholds themselves, where a float32 row may be just above or just below."""
    boosters = [
        _trees(kind, DATA.rows, values, seed=3)
        for kind, values in (("binary", DATA.usable), ("regression", DATA.targets))
    ]
    forest = Forest.of(boosters)
    rows = features.features(space.sample(300, 8))
    columns, thresholds = forest.columns[:300], forest.thresholds[:300]
    rows[np.arange(len(columns)), columns] = thresholds
    expected = np.stack([each.predict(rows, raw_score=True) for each in boosters], axis=1)
    np.testing.assert_allclose(forest.evaluate(rows), expected, rtol=1e-5, atol=1e-5)
    assert forest.evaluate(rows[:0]).shape == (0, 2)


def test_contributions_lead_from_the_mean_to_the_value():
    forest = Forest.of([_trees("regression", DATA.rows, DATA.targets, seed=1)])
    mean = forest.values[forest.roots].sum()
    for row, value in zip(DATA.rows[:20], forest.evaluate(DATA.rows[:20])[:, 0], strict=True):
        assert mean + forest.contributions(row).sum() == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("field", ["columns", "children", "roots", "outputs"])
def test_a_forest_that_leads_out_of_itself_is_refused(field):
    arrays = MODEL.forest.arrays()
    for wrong in (-1, 10**6):
        changed = arrays[field].copy()
        changed.flat[3] = wrong
        with pytest.raises(ValueError, match="expected indices within their arrays"):
            Forest.from_arrays({**arrays, field: changed})
    with pytest.raises(ValueError, match="columns"):
        MODEL.forest.evaluate(DATA.rows[:, 1:])


def _chain(leaves):
    """One tree, each right child a split again: a row of one column v ends in leaf ceil(v)."""
    splits = np.arange(leaves - 1)
    inside = np.stack([splits + leaves - 1, splits + 1], axis=1)
    inside[-1, 1] = 2 * leaves - 2
    ends = np.arange(leaves - 1, 2 * leaves - 1)
    return Forest(
        thresholds=np.float32(np.r_[splits, ends]),
        columns=np.zeros(2 * leaves - 1, np.int32),
        children=np.int32(np.r_[inside, np.stack([ends, ends], axis=1)]),
        values=np.float32(np.r_[splits, ends - leaves + 1]),
        roots=np.zeros(1, np.int32),
        outputs=np.zeros(1, np.int32),
        width=np.array(1, np.int32),
    )


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 300])
def test_a_tree_has_up_to_32_leaves(rows):
    values = np.float32(np.random.default_rng(rows).uniform(-1, 40, (rows, 1)))
    leaves = _chain(32).evaluate(values)
    np.testing.assert_array_equal(leaves, np.clip(np.ceil(values), 0, 31))
    with pytest.raises(ValueError, match="expected trees of up to 32 leaves"):
        _chain(33).evaluate(values)


def test_a_tree_that_never_ends_is_refused():
    arrays = _chain(4).arrays()
    arrays["children"][2] = 0
    with pytest.raises(ValueError, match="expected trees of up to 32 leaves"):
        Forest.from_arrays(arrays)


MODEL = BoostingModel()
MODEL.fit(DATA, seed=0)
METADATA = {"cells": len(DATA), "features": features.VERSION, "space": space.SPACE_VERSION}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("predictor") / "predictor.safetensors"
    write_predictor(path, MODEL, METADATA)
    return path


def test_the_file_gives_the_model_back(path):
    expected = MODEL.predict(DATA.codes, DATA.rows)
    predictor = Predictor(path)
    found = predictor(DATA.codes)
    np.testing.assert_array_equal(found.target, expected.target)
    assert predictor.metadata["cells"] == len(DATA)
    assert predictor(np.array([], np.int64)).usable.shape == (0,)
    with pytest.raises(CodeError):
        predictor([3])


def test_explanation(path):
    """Effects are sorted, name every column and lead from the mean to the target."""
    code, predictor = int(DATA.codes[0]), Predictor(path)
    effects = predictor.explain(code)
    assert sorted(effects, key=lambda each: -abs(each[2])) == effects
    assert {name: value for name, value, _ in effects} == dict(
        zip(features.names(), DATA.rows[0].tolist(), strict=True)
    )
    forest = MODEL.forest
    members = int(forest.outputs.max() + 1) // 2
    mean = forest.values[forest.roots[forest.outputs >= members]].sum() / members
    target = forest.evaluate(DATA.rows[:1])[0, members:].mean()
    assert mean + sum(effect for _, _, effect in effects) == pytest.approx(target, abs=1e-4)


def test_the_shipped_one_keeps_its_promises():
    """Of the labels it comes with, and scores on cells that it had not seen."""
    metadata = shipped().metadata
    assert metadata["labels"] == provenance(SHIPPED)["labels"]
    assert metadata["best"] == "boosting"
    scores = metadata["scores"]["boosting"]
    assert scores["auc"] >= 0.85
    assert scores["kendall"] >= 0.55


def test_other_files_are_refused(tmp_path, path, monkeypatch):
    other = tmp_path / "other.safetensors"
    with pytest.raises(StoreError, match="expected a meta-model"):
        Predictor(other)
    other.write_bytes(path.read_bytes()[:50])
    with pytest.raises(StoreError, match="expected a meta-model"):
        Predictor(other)
    monkeypatch.setattr(features, "VERSION", 99)
    with pytest.raises(StoreError, match="expected version 99 of the features, found 1"):
        Predictor(path)
