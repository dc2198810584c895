"""The operator `fastcell::scan` against eager float64, and its manners under torch's transforms."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import TOLERANCE
from torch.func import functional_call, grad, vmap

import fastcell
from fastcell import space
from fastcell.backends import eager
from fastcell.library import CELLS
from fastcell.nn import Recurrent
from fastcell.scan import compiled_scan

SHAPES = [(1, 1, 1), (2, 5, 7), (48, 33, 7), (2, 5, 64), (5, 33, 91), (2, 1, 105), (3, 5, 130)]
"""(T, B, H), none friendly; I is H where the cell asks for it, else 3."""


def make_case(cell, shape, dtype, seed=0):
    """Inputs and seeds of every returned value, the same numbers in any dtype."""
    steps, batch, hidden = shape
    input_size = hidden if cell.uses_input_elementwise else 3
    rng = np.random.default_rng(seed)

    def draw(*size, scale=1.0):
        value = rng.standard_normal(size) * scale
        return torch.tensor(value, dtype=torch.float64).to(dtype).requires_grad_()

    x = draw(steps, batch, input_size)
    states = tuple(draw(batch, hidden) for _ in cell.states)
    shapes = cell.parameters(input_size, hidden)
    parameters = {
        name: draw(*size, scale=size[-1] ** -0.5 if size else 1.0) for name, size in shapes.items()
    }
    seeds = [draw(steps, batch, hidden), *(draw(batch, hidden) for _ in states)]
    return x, states, parameters, [seed.detach() for seed in seeds]


def results(scan, cell, case):
    """(outputs and finals, gradients of x, states and parameters)."""
    x, states, parameters, seeds = case
    output, finals = scan(cell, x, states, parameters)
    values = [output, *finals]
    leaves = [x, *states, *parameters.values()]
    grads = torch.autograd.grad(values, leaves, seeds, materialize_grads=True)
    return [value.detach() for value in values], list(grads)


def assert_agrees(cell, shape, dtype, seed=0):
    expected = results(eager.scan, cell, make_case(cell, shape, torch.float64, seed))
    found = results(compiled_scan, cell, make_case(cell, shape, dtype, seed))
    for ours, theirs in zip(sum(found, []), sum(expected, []), strict=True):
        torch.testing.assert_close(ours.double(), theirs, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_library_cells_match_eager(name, shape, dtype):
    assert_agrees(CELLS[name], shape, dtype)


def test_random_space_cells_match_eager():
    for number, code in enumerate(space.sample(120, seed=5)):
        assert_agrees(space.decode(int(code)), (3, 2, 7), torch.float64, seed=number)
