"""`return_all_states`: every state at every step, as step after step gives them, with gradients."""

import pytest
import torch
from conftest import TOLERANCE
from torch.nn.utils.rnn import pack_padded_sequence
from torch_pairs import tensors_of

from fastcell import Recurrent, library
from fastcell.backends import eager
from fastcell.scan import compiled_scan


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch_sizes", [None, [5, 5, 2, 1]])
def test_the_engine_agrees_with_eager(cell, batch_sizes, reverse):
    for dtype, hidden in ((torch.float64, 7), (torch.float32, 20)):
        found = scan_results(compiled_scan, cell, hidden, dtype, batch_sizes, reverse)
        expected = scan_results(eager.scan, cell, hidden, torch.float64, batch_sizes, reverse)
        torch.testing.assert_close(found, expected, **TOLERANCE[dtype])


def scan_results(scan, cell, hidden, dtype, batch_sizes, reverse):
    """All states and finals, and the gradients of everything."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        values = torch.randn(size, generator=generator, dtype=torch.float64)
        return (values * (size[-1] ** -0.5 if size else 1)).to(dtype).requires_grad_()

    layout = (4, 5) if batch_sizes is None else (sum(batch_sizes),)
    x, states = draw(*layout, hidden), tuple(draw(5, hidden) for _ in cell.states)
    parameters = {name: draw(*size) for name, size in cell.parameters(hidden, hidden).items()}
    sizes = None if batch_sizes is None else torch.tensor(batch_sizes)
    output, finals = scan(cell, x, states, parameters, sizes, reverse, all_states=True)
    assert output.shape == (*layout, hidden * len(states))
    values = [output, *finals]
    seeds = [draw(*each.shape).detach() for each in values]
    leaves = [x, *states, *parameters.values()]
    grads = torch.autograd.grad(values, leaves, seeds, materialize_grads=True)
    return [each.detach().double() for each in (*values, *grads)]


@pytest.mark.parametrize("batch", [None, 3])
def test_the_states_are_those_of_single_steps(cell, batch):
    module = Recurrent(cell, 4, 4, num_layers=2, dtype=torch.float64)
    x = torch.randn(5, 4) if batch is None else torch.randn(5, batch, 4)
    x = x.double()
    output, final, states = module(x, return_all_states=True)
    torch.testing.assert_close((output, final), module(x), **TOLERANCE[x.dtype])
    state, history = None, []
    for x_now in x:
        _, state = module.step(x_now, state)
        history.append(tensors_of(state))
    expected = [torch.stack(each, dim=1) for each in zip(*history, strict=True)]
    torch.testing.assert_close(tensors_of(states), expected, **TOLERANCE[x.dtype])
    torch.manual_seed(0)
    seeds = [torch.randn_like(each) for each in expected]
    actual, wanted = (
        torch.autograd.grad(each, [*module.parameters()], seeds)
        for each in (tensors_of(states), expected)
    )
    torch.testing.assert_close(actual, wanted, **TOLERANCE[x.dtype])


def test_layers_and_directions_come_in_the_order_of_the_final_states():
    module = Recurrent(library.lstm, 3, 4, 2, batch_first=True, bidirectional=True)
    output, final, states = module(torch.randn(2, 5, 3), return_all_states=True)
    for last, each in zip(final, states, strict=True):
        assert each.shape == (4, 2, 5, 4)
        torch.testing.assert_close(each[0::2, :, -1], last[0::2])
        torch.testing.assert_close(each[1::2, :, 0], last[1::2])
    torch.testing.assert_close(torch.cat([*states[0][2:]], dim=-1), output)


def test_lengths_and_packed_sequences():
    module = Recurrent(library.lstm, 3, 4, bidirectional=True)
    x, lengths = torch.randn(5, 2, 3), [2, 5]
    _, _, (h, c) = module(x, lengths=lengths, return_all_states=True)
    for row, length in enumerate(lengths):
        _, _, alone = module(x[:length, row], return_all_states=True)
        torch.testing.assert_close((h[:, :length, row], c[:, :length, row]), alone)
        assert not h[:, length:, row].any()
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, _, (h_rows, c_rows) = module(packed, return_all_states=True)
    torch.testing.assert_close(torch.cat([*h_rows], dim=-1), output.data)
    torch.testing.assert_close(c_rows[:, 0], c[:, 0, 1])
