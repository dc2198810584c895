"""`Recurrent.step` in inference, straight on the engine."""

import copy
import pickle

import pytest
import torch

from fastcell import Recurrent, library
from fastcell.errors import ShapeError


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("batch", [None, 1, 5])
def test_streaming_equals_the_whole_sequence(cell, layers, batch):
    """Step by step under no_grad, straight on the engine; weights may change in between."""
    size = 6
    module = Recurrent(cell, size, size, num_layers=layers, dtype=torch.float64)
    shape = (4, size) if batch is None else (4, batch, size)
    x = torch.randn(shape, dtype=torch.float64)
    for _ in range(2):
        state = None
        with torch.no_grad():
            outputs = []
            for each in x:
                output, state = module.step(each, state)
                outputs.append(output)
            expected, expected_state = module(x)
            torch.testing.assert_close(torch.stack(outputs), expected)
            torch.testing.assert_close(state, expected_state)
            for parameter in module.parameters():
                parameter.data.mul_(0.5)


def test_a_view_that_negates_is_read_as_it_is():
    """torch keeps the sign of such a view in a bit beside the numbers."""
    module = Recurrent(library.lstm, 4, 8)
    x = torch._neg_view(torch.randn(2, 4))
    with torch.no_grad():
        torch.testing.assert_close(module.step(x)[0], module(x[None])[0][0])


def test_the_output_is_not_the_state():
    module = Recurrent(library.gru, 4, 8)
    with torch.no_grad():
        output, state = module.step(torch.randn(2, 4))
        output.zero_()
    assert state.abs().sum() > 0


def test_dropout_between_layers_acts_in_training():
    module = Recurrent(library.gru, 4, 8, num_layers=2, dropout=0.999)
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert (module.step(x)[0] - module.eval().step(x)[0]).abs().max() > 0


def test_a_weight_made_smaller_in_place_is_noticed():
    """Its address and its strides stay as they were."""
    module = Recurrent(library.gru, 4, 8)
    x = torch.randn(2, 4)
    with torch.no_grad():
        module.step(x)
        weight = next(iter(module.parameters()))
        weight.data = weight.data[:7]
        with pytest.raises(ShapeError, match="weight: expected"):
            module.step(x)


def test_a_module_of_another_dtype_is_noticed():
    module = Recurrent(library.gru, 4, 8)
    x = torch.randn(2, 4)
    with torch.no_grad():
        module.step(x)
        module.double()
        with pytest.raises(ShapeError, match=r"x: expected torch\.float64"):
            module.step(x)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_has_its_own_weights(copied):
    module = Recurrent(library.gru, 4, 8)
    x = torch.randn(2, 4)
    with torch.no_grad():
        output, _ = module.step(x)
        twin = copied(module)
        for parameter in module.parameters():
            parameter.zero_()
        torch.testing.assert_close(twin.step(x)[0], output)


@pytest.mark.parametrize("hidden", [1, 7])
@pytest.mark.parametrize("batch", [None, 0, 1, 5])
def test_the_memory_of_x_and_the_states_may_lie_in_any_order(hidden, batch):
    module = Recurrent(library.lstm, 3, hidden, num_layers=2)
    sizes = () if batch is None else (batch,)
    x = torch.randn(3, *sizes).movedim(0, -1)
    h = torch.randn(hidden, *sizes, 2).movedim((0, -1), (-1, 0))
    c = torch.randn(1, *sizes, hidden).expand(2, *sizes, hidden)
    with torch.no_grad():
        for state in [(h, c), (h.contiguous(), c.contiguous())]:
            output, news = module.step(x, state)
            expected, expected_news = module(x[None], state)
            torch.testing.assert_close(output, expected[0])
            torch.testing.assert_close(news, expected_news)
