"""Folding a projection into a cell changes no number, forward or backward."""

import pytest
import torch
from conftest import TOLERANCE
from torch import nn

from fastcell import parse, space
from fastcell.fold import fold, fold_parameters
from fastcell.library import CELLS
from fastcell.nn import Recurrent
from fastcell.scan import resolve

STRANGE = """
def cell(x, h, projected):
    a = linear(h, x, x + h, x, bias=False)
    b = linear(h)
    return a * b + projected, x
"""
CASES = [*CELLS.values(), parse(STRANGE), *map(space.decode, space.sample(24, 8).tolist())]


def both(cell, backend):
    """Results and gradients of projection and cell apart, and of the folded cell."""
    torch.manual_seed(0)
    projection = nn.Linear(3, 7).double()
    module = Recurrent(cell, 7, 7, backend=backend).double()
    u = torch.randn(5, 4, 3).double()
    states = tuple(torch.randn(1, 4, 7).double() for _ in cell.states)
    leaves = [*projection.parameters(), *module.parameters()]

    def results(output, finals):
        loss = output.sin().sum() + sum(final.cos().sum() for final in finals)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [output, *finals, *gradients]

    output, finals = module(projection(u), states if len(states) > 1 else states[0])
    finals = finals if isinstance(finals, tuple) else (finals,)
    apart = results(output, [final[0] for final in finals])
    (layer,) = module.layers
    parameters = fold_parameters(cell, projection, layer.tensors())
    ones = torch.cat([u, torch.ones(5, 4, 1).double()], dim=-1)
    scan = resolve(backend, u)
    return apart, results(*scan(fold(cell), ones, tuple(s[0] for s in states), parameters))


@pytest.mark.parametrize("backend", ["cpu", "eager"])
@pytest.mark.parametrize("cell", CASES, ids=lambda cell: f"{cell.name}-{cell.key[:6]}")
def test_same_numbers(cell, backend):
    for expected, found in zip(*both(cell, backend), strict=True):
        if expected is None:
            assert found is None or not found.any()
        else:
            torch.testing.assert_close(found, expected, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("cell", CASES, ids=lambda cell: f"{cell.name}-{cell.key[:6]}")
def test_is_a_cell(cell):
    folded = fold(cell)
    assert parse(folded.text) == folded
    assert tuple(parse(folded.text).parameters(4, 7)) == tuple(folded.parameters(4, 7))
    assert not folded.uses_input_elementwise


def test_narrow_products():
    assert CELLS["lstm"].parameter_count(64, 64) == 33_024
    assert fold(CELLS["lstm"]).parameter_count(3, 64) == 4 * 64 * (64 + 3) + 4 * 64
