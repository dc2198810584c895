"""`Recurrent.step` in inference, straight on the engine."""

import pytest
import torch

from fastcell import Recurrent, library


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
