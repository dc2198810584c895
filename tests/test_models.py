"""LSWM against a loop over time written from its source's equations."""

import pytest
import torch
from conftest import TOLERANCE
from torch.nn.functional import embedding, layer_norm, linear, softsign

import fastcell
from fastcell import ShapeError, library
from fastcell.models import LSWM


def scaled(v):
    return (1 + softsign(v)) / 2


def original(x, h, p):
    """The step of the source."""
    new = softsign(x + h) * p["alpha"]
    f = scaled(linear(new + h, p["f.weight"], p["f.bias"]))
    i_x = linear(x, p["i_x.weight"], p["i_x.bias"])
    i_h = linear(h, p["i_h.weight"], p["i_h.bias"])
    candidate = scaled(f * h + scaled(i_x + i_h) * new)
    return softsign(linear(new + h, p["o.weight"], p["o.bias"])) * candidate


def modified(x, h, p):
    """The step that the source ends with."""

    def gate(name):
        of_x, of_h = p[f"{name}.weight"].chunk(2, dim=1)
        return linear(x, of_x, p[f"{name}.bias"]) + linear(h, of_h)

    c = scaled(gate("f")) * softsign(gate("candidate")) + scaled(gate("i")) * x
    return scaled(gate("o")) * c


STEPS = {"lswm": (library.lswm, original), "lswm_cec": (library.lswm_cec, modified)}


@pytest.mark.parametrize(("cell", "step"), STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("length", "batch", "size"), [(7, 5, 24), (1, 1, 18), (30, 3, 19)])
def test_equals_the_source(cell, step, length, batch, size):
    torch.manual_seed(1)
    model = LSWM(18, size, cell).double()
    weights = dict(model.named_parameters())
    p = {name.removeprefix("short.layers.0."): weight for name, weight in weights.items()}
    tokens = torch.randint(18, (length, batch))
    h, steps = torch.zeros(batch, size, dtype=torch.float64), []
    for x in embedding(tokens, p["embedding.weight"]):
        h = step(x, h, p)
        steps.append(h)
    history = torch.stack(steps, dim=1)
    long = history @ (history.mT @ history) / size**0.5
    expected = layer_norm(softsign(long.sum(dim=1)), (size,), p["norm.weight"], p["norm.bias"])
    actual = model(tokens)
    torch.testing.assert_close(actual, expected, **TOLERANCE[torch.float64])
    mix = torch.randn_like(expected)
    for found, wanted in zip(*(torch.autograd.grad((each * mix).sum(), weights.values())
                               for each in (actual, expected)), strict=True):  # fmt: skip
        torch.testing.assert_close(found, wanted, **TOLERANCE[torch.float64])


def test_parameters_are_counted_as_in_the_source():
    """4 linears of d^2 + d, 18 d for the embedding, 2 d for the normalisation, and alpha."""
    assert count(fastcell.models.LSWM(18, 128)) == 68_609
    assert count(LSWM(18, 128, library.lswm_cec)) == 4 * (2 * 128 + 1) * 128 + 18 * 128 + 2 * 128


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("vocab_size", [0, 9])
def test_every_token_has_a_feature(vocab_size):
    with pytest.raises(ShapeError, match=f"expected 1 to d_model = 8: .*; found {vocab_size}"):
        LSWM(vocab_size, 8)
