"""What `Recurrent` refuses, and how it says so."""

import re

import pytest
import torch
from torch import nn

from fastcell import BackendError, Recurrent, ShapeError, library, parse


def tell(error, message):
    return pytest.raises(error, match=re.escape(message))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_size": 0}, "input_size: expected a whole number >= 1, found 0"),
        ({"hidden_size": 2.5}, "hidden_size: expected a whole number >= 1, found 2.5"),
        ({"num_layers": 0}, "num_layers: expected a whole number >= 1, found 0"),
        ({"num_layers": "2"}, "num_layers: expected a whole number >= 1, found '2'"),
        ({"dropout": 1.5}, "dropout: expected a probability, from 0 to 1, found 1.5"),
        ({"dropout": "x"}, "dropout: expected a probability, from 0 to 1, found 'x'"),
        ({"cell": "lstm"}, "cell: expected a Cell, found str: fastcell.parse(text) makes one"),
        ({"cell": nn.LSTM}, "cell: expected a Cell, found type"),
        ({"cell": library.lswm}, "input_size must equal hidden_size; found 3 and 4"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with tell(ShapeError, message):
        Recurrent(**{"cell": library.lstm, "input_size": 3, "hidden_size": 4} | options)


def test_unknown_backend():
    with pytest.raises(BackendError, match=r"backend: expected one of auto, .*; found 'cuda9'"):
        Recurrent(library.lstm, 3, 4, backend="cuda9")


def test_elementwise_input_above_two_directions():
    Recurrent(library.lswm, 4, 4, bidirectional=True)
    Recurrent(library.lswm, 4, 4, num_layers=2)
    message = (
        "cell 'lswm' uses x elementwise, so each layer takes H = 4 features; found 8 from the two"
        " directions below: use modules of one layer with nn.Linear(8, 4) between them"
    )
    with tell(ShapeError, message):
        Recurrent(library.lswm, 4, 4, num_layers=2, bidirectional=True)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(3), "x: expected (T, B, I) or unbatched (T, I); found (3,)"),
        (torch.zeros(1, 1, 1, 3), "x: expected (T, B, I) or unbatched (T, I); found (1, 1, 1, 3)"),
        (
            torch.zeros(5, 2, 4),
            "x: expected input_size = 3 features in the last axis; found 4 in (5, 2, 4)",
        ),
        (
            torch.zeros(5, 2, 3).double(),
            "x: expected torch.float32, found torch.float64: convert it, or the module,"
            " with .to(torch.float64)",
        ),
        ([[0.0]], "x: expected a tensor, found list"),
    ],
)
def test_input_that_does_not_fit(x, message):
    with tell(ShapeError, message):
        Recurrent(library.lstm, 3, 4)(x)


def test_the_layout_is_named_as_the_module_has_it():
    with tell(ShapeError, "x: expected (B, T, I) or unbatched (T, I); found (3,)"):
        Recurrent(library.lstm, 3, 4, batch_first=True)(torch.zeros(3))


STATE = torch.zeros(1, 2, 4)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (STATE, "state: expected a tuple (h, c); found Tensor"),
        ((STATE,), "state: expected a tuple (h, c); found tuple (Tensor)"),
        ((STATE,) * 3, "state: expected a tuple (h, c); found tuple (Tensor, Tensor, Tensor)"),
        ((STATE, None), "state: expected a tuple (h, c); found tuple (Tensor, NoneType)"),
        (5, "state: expected a tuple (h, c); found int"),
        (
            (STATE, STATE[0]),
            "state 'c': expected (1, 2, 4), which is (layers * directions, B, H); found (2, 4)",
        ),
        (
            (torch.zeros(2, 2, 4), STATE),
            "state 'h': expected (1, 2, 4), which is (layers * directions, B, H); found (2, 2, 4)",
        ),
        ((STATE, STATE.half()), "state 'c': expected torch.float32, found torch.float16"),
    ],
)
def test_states_that_do_not_fit(state, message):
    with tell(ShapeError, message):
        Recurrent(library.lstm, 3, 4)(torch.zeros(5, 2, 3), state)


def test_the_state_of_a_cell_with_one_is_bare():
    module = Recurrent(library.gru, 3, 4)
    with tell(ShapeError, "state: expected a tensor; found tuple (Tensor, Tensor)"):
        module(torch.zeros(5, 2, 3), (STATE, STATE))


def test_an_unbatched_state_has_no_batch_axis():
    module = Recurrent(library.gru, 3, 4)
    message = "state 'h': expected (1, 4), which is (layers * directions, H); found (1, 2, 4)"
    with tell(ShapeError, message):
        module(torch.zeros(5, 3), STATE)


def test_a_step_takes_one_step():
    with tell(ShapeError, "x: expected one step, (B, I) or (I,); found (5, 2, 3)"):
        Recurrent(library.gru, 3, 4).step(torch.zeros(5, 2, 3))
    with tell(ShapeError, "step: expected one direction, found bidirectional=True"):
        Recurrent(library.gru, 3, 4, bidirectional=True).step(torch.zeros(2, 3))


def test_a_cell_without_parameters_runs_in_the_dtype_of_its_input():
    module = Recurrent(parse("def mean(x, h): return (x + h) / 2"), 3, 3)
    assert module(torch.ones(2, 1, 3, dtype=torch.float64))[0].dtype == torch.float64
