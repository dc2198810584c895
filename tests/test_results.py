"""Protocols, runs and results as values: keys, ids, JSON."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcell
from fastcell import TaskError
from fastcell.library import adding_dag, gru, rnn
from fastcell.results import Protocol, Result, ResultId, Run

NMSE = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


def run(cell=rnn, seed=0):
    return Run(cell, "adding", Protocol(), seed)


def test_default_protocol_is_the_published_one():
    expected = (400, 64, "adam", 1e-3, 1.0, 64, "float32")
    protocol = Protocol()
    found = (protocol.epochs, protocol.batch_size, protocol.optimizer, protocol.learning_rate)
    assert (*found, protocol.clip, protocol.hidden_size, protocol.dtype) == expected


def test_key_stays():
    """Golden: results are found by it."""
    assert Protocol().key == "7931b4872f14e26e"


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 399},
        {"batch_size": 32},
        {"optimizer": "sgd"},
        {"learning_rate": 2e-3},
        {"clip": 0},
        {"hidden_size": 65},
        {"dtype": "float64"},
    ],
)
def test_every_field_counts_in_the_key(change):
    assert Protocol(**change).key != Protocol().key


def test_whole_numbers_for_floats_have_the_same_key():
    assert Protocol(clip=1) == Protocol(clip=1.0)
    assert Protocol(clip=1).key == Protocol().key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs: expected a whole number >= 1, found 0"),
        ({"epochs": 1.5}, "epochs: expected a whole number >= 1, found 1.5"),
        ({"epochs": True}, "found True"),
        ({"batch_size": -1}, "batch_size"),
        ({"hidden_size": "64"}, "hidden_size: expected a whole number >= 1, found '64'"),
        ({"learning_rate": math.nan}, "learning_rate: expected a number >= 0, found nan"),
        ({"learning_rate": math.inf}, "found inf"),
        ({"clip": -0.5}, "clip: expected a number >= 0, found -0.5"),
        ({"optimizer": "lion"}, "optimizer: expected one of adam, adamw, sgd; found 'lion'"),
        ({"dtype": "float16"}, "dtype: expected one of float32, float64; found 'float16'"),
    ],
)
def test_out_of_range(change, message):
    with pytest.raises(TaskError, match=message):
        Protocol(**change)


def test_id_looks_past_names():
    renamed = fastcell.parse("def elman(u, s):\n    return tanh(linear(s, u))")
    assert run(renamed).id == run().id == ResultId(rnn.key, "adding", Protocol().key, 0)
    assert len({run().id, run(seed=1).id, run(gru).id}) == 3


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5])
def test_seed_out_of_range(seed):
    with pytest.raises(TaskError, match="seed: expected a whole number in"):
        run(seed=seed)


def test_what_follows_from_the_run():
    result = Result.of(run(adding_dag), "done", epochs=3, validation=(0.5, 0.25, 0.25), test=0.3)
    assert (result.best_validation, result.best_epoch) == (0.25, 2)
    assert (result.name, result.parameters) == ("adding_dag", 33_024)
    assert fastcell.parse(result.cell_text) == adding_dag
    assert fastcell.space.decode(result.code).key == adding_dag.key
    assert Result.of(run(gru), "done").code is None


def test_diverged_at_once():
    result = Result.of(run(), "diverged", error="training loss was nan in epoch 1", epochs=1)
    assert (result.best_validation, result.best_epoch, result.test) == (None, None, None)
    assert Result.from_json(result.to_json()) == result


@given(curve=st.lists(NMSE).map(tuple), test=st.none() | NMSE, seed=st.integers(0, 2**63 - 1))
def test_json_round_trip(curve, test, seed):
    result = Result.of(run(seed=seed), "done", epochs=len(curve), validation=curve, test=test)
    again = Result.from_json(result.to_json())
    assert again == result
    assert again.id == run(seed=seed).id


def test_bad_json():
    whole = Result.of(run(), "done")
    with pytest.raises(ValueError, match="fields of a Result"):
        Result.from_json("{}")
    with pytest.raises(ValueError, match="found 'odd'"):
        Result.from_json(replace(whole, status="odd").to_json())
    with pytest.raises(ValueError, match="Expecting"):
        Result.from_json(whole.to_json()[:-1])
