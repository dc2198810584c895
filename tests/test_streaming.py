"""`Recurrent.step` in inference, straight on the engine."""

import pytest
import torch

from fastcell import Recurrent


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
