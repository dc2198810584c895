"""The reference backend against each cell's equations written out in numpy."""

import numpy as np
import pytest
import torch
from conftest import TOLERANCE

import fastcell
from fastcell.backends import eager
from fastcell.library import CELLS


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def softsign(a):
    return a / (1 + np.abs(a))


def softsign_scaled(a):
    return (1 + softsign(a)) / 2


def layernorm(a):
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)


class Weights:
    """w.g(x, h) is the `linear` called g of [x; h], w["alpha"] a scalar or vector."""

    def __init__(self, parameters):
        self.parameters = {name: tensor.numpy() for name, tensor in parameters.items()}

    def __getitem__(self, name):
        return self.parameters[name]

    def __getattr__(self, name):
        weight, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias", 0)
        return lambda *sources: np.concatenate(sources, -1) @ weight.T + bias


def rnn(w, x, h):
    return (np.tanh(w.g(x, h)),)


def lstm(w, x, h, c):
    c = sigmoid(w.f(x, h)) * c + sigmoid(w.i(x, h)) * np.tanh(w.g(x, h))
    return sigmoid(w.o(x, h)) * np.tanh(c), c


def gru(w, x, h):
    r, z = sigmoid(w.r(x, h)), sigmoid(w.z(x, h))
    n = np.tanh(w.n_x(x) + r * w.n_h(h))
    return ((1 - z) * n + z * h,)


def peephole_lstm(w, x, h, c):
    i = sigmoid(w.i(x, h) + w["i_peep"] * c)
    f = sigmoid(w.f(x, h) + w["f_peep"] * c)
    c = f * c + i * np.tanh(w.g(x, h))
    o = sigmoid(w.o(x, h) + w["o_peep"] * c)
    return o * np.tanh(c), c


def layernorm_lstm(w, x, h, c):
    def normed(name, value):
        return layernorm(value) * w[f"{name}_gain"] + w[f"{name}_shift"]

    i = sigmoid(normed("i", w.i(x, h)))
    f = sigmoid(normed("f", w.f(x, h)))
    c = f * c + i * np.tanh(normed("g", w.g(x, h)))
    return sigmoid(normed("o", w.o(x, h))) * np.tanh(normed("c", c)), c


def mgu(w, x, h):
    f = sigmoid(w.f(x, h))
    return ((1 - f) * h + f * np.tanh(w.candidate(x, f * h)),)


def adding_dag(w, x, h, c):
    g = np.tanh(w.g(x, h))
    gate0 = sigmoid(w.gate0(c, x)) * g
    total = x + h + c + g + gate0
    gate2 = sigmoid(w.gate2(g, gate0)) * x
    gate1 = sigmoid(w.gate1(total, x)) * np.tanh(gate2)
    return h + gate1, gate1


def lswm(w, x, h):
    x_new = softsign(x + h) * w["alpha"]
    f = softsign_scaled(w.f(x_new + h))
    i = softsign_scaled(w.i_x(x) + w.i_h(h))
    candidate = softsign_scaled(f * h + i * x_new)
    return (softsign(w.o(x_new + h)) * candidate,)


def lswm_cec(w, x, h):
    f, i, o = (softsign_scaled(gate(x, h)) for gate in (w.f, w.i, w.o))
    return (o * (f * softsign(w.candidate(x, h)) + i * x),)


STEPS = {
    step.__name__: step
    for step in (rnn, lstm, gru, peephole_lstm, layernorm_lstm, mgu, adding_dag, lswm, lswm_cec)
}


def drawn(cell, batch, time, inputs, hidden, dtype=torch.float64, seed=0):
    """x, states and parameters, all random: scalars and vectors too."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)

    x = draw(time, batch, inputs)
    states = tuple(draw(batch, hidden) for _ in cell.states)
    return x, states, {k: draw(*s) / 2 for k, s in cell.parameters(inputs, hidden).items()}


def test_every_library_cell_is_written_out():
    assert STEPS.keys() == CELLS.keys()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("batch", "time", "hidden"), [(1, 1, 1), (5, 2, 7), (33, 7, 33)])
def test_equals_the_equations(cell, batch, time, hidden, dtype):
    inputs = hidden if cell.uses_input_elementwise else hidden + 3
    x, states, parameters = drawn(cell, batch, time, inputs, hidden, dtype)
    outputs, finals = eager.scan(cell, x, states, parameters)

    weights, current, expected = Weights(parameters), [s.numpy() for s in states], []
    for x_now in x.numpy():
        current = STEPS[cell.name](weights, x_now, *current)
        expected.append(current[0])
    close = TOLERANCE[dtype]
    np.testing.assert_allclose(outputs.numpy(), np.stack(expected), **close)
    for final, last in zip(finals, current, strict=True):
        np.testing.assert_allclose(final.numpy(), last, **close)
        assert final.dtype == dtype


@pytest.mark.parametrize("time", [0, 1, 2])
def test_trajectories_hold_every_state_of_every_moment(cell, time):
    x, states, parameters = drawn(cell, 3, time, 4, 4)
    histories = eager.trajectories(cell, x, states, parameters)
    outputs, finals = eager.scan(cell, x, states, parameters)
    for history, state, final in zip(histories, states, finals, strict=True):
        assert history.shape == (time + 1, 3, 4)
        assert torch.equal(history[0], state)
        assert torch.equal(history[-1], final)
    assert torch.equal(histories[0][1:], outputs)


def test_an_empty_sequence_gives_the_states_back_with_gradient(cell):
    x, states, parameters = drawn(cell, 3, 0, 4, 4)
    states = tuple(state.requires_grad_() for state in states)
    outputs, finals = eager.scan(cell, x, states, parameters)
    assert outputs.shape == (0, 3, 4)
    gradients = torch.autograd.grad(sum(final.sum() for final in finals), states)
    assert all(torch.equal(each, torch.ones_like(each)) for each in gradients)


def test_an_empty_batch(cell):
    outputs, finals = eager.scan(cell, *drawn(cell, 0, 2, 4, 4))
    assert outputs.shape == (2, 0, 4)
    assert all(final.shape == (0, 4) for final in finals)


def test_gradcheck(cell):
    x, states, parameters = drawn(cell, 2, 2, 3, 3)
    tensors = [each.requires_grad_() for each in (x, *states, *parameters.values())]

    def flat(x, *rest):
        count = len(states)
        named = dict(zip(parameters, rest[count:], strict=True))
        outputs, finals = eager.scan(cell, x, rest[:count], named)
        return outputs, *finals

    assert torch.autograd.gradcheck(flat, tensors)


def test_strides_do_not_matter(cell):
    x, states, parameters = drawn(cell, 5, 7, 4, 4)
    expected, _ = eager.scan(cell, x, states, parameters)

    def strided(tensor):
        return torch.stack([tensor, tensor], dim=-1)[..., 0]

    transposed = x.transpose(0, 1).contiguous().transpose(0, 1)
    parameters = {name: strided(each) for name, each in parameters.items()}
    for other in (strided(x), transposed):
        actual, _ = eager.scan(cell, other, tuple(map(strided, states)), parameters)
        torch.testing.assert_close(actual, expected, **TOLERANCE[x.dtype])


CORNERS = {
    "constant": ("(x, h): return h + exp(0.5) * x", lambda x, h, w: h + np.exp(0.5) * x),
    "vector alone": (
        "(_x, _h):\n v = vector(1)\n return v",
        lambda x, h, w: np.broadcast_to(w["v"], h.shape),
    ),
    "vector in a linear": (
        "(_x, h):\n v = vector(1)\n g = linear(v, h, bias=False)\n return g",
        lambda x, h, w: w.g(np.broadcast_to(w["v"], h.shape), h),
    ),
    "scalar": (
        "(x, h):\n a = scalar(1)\n return x * sigmoid(a) / 4 - neg(h)",
        lambda x, h, w: x * sigmoid(w["a"]) / 4 + h,
    ),
    "row-wise": (
        "(x, h): return rmsnorm(x) + h",
        lambda x, h, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) + h,
    ),
    "input alone": ("(x, _h): return x", lambda x, h, w: x),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corners_of_the_language(corner):
    text, expected = CORNERS[corner]
    cell = fastcell.parse(f"def corner{text}")
    x, (h,), parameters = drawn(cell, 5, 1, 7, 7)
    outputs, _ = eager.scan(cell, x, (h,), parameters)
    actual, expected = outputs[0].numpy(), expected(x[0].numpy(), h.numpy(), Weights(parameters))
    np.testing.assert_allclose(actual, expected, **TOLERANCE[torch.float64])


def test_states_pass_through_untouched():
    cell = fastcell.parse("def swap(_x, h, c):\n    return c, h")
    x, (h, c), parameters = drawn(cell, 2, 3, 4, 4)
    outputs, finals = eager.scan(cell, x, (h, c), parameters)
    assert torch.equal(outputs, torch.stack([c, h, c]))
    assert torch.equal(finals[1], h)


@pytest.mark.gpu
def test_gpu_equals_cpu(cell):
    arguments = drawn(cell, 5, 7, 9, 9)
    expected, _ = eager.scan(cell, *arguments)
    x, states, parameters = arguments
    moved = {name: each.cuda() for name, each in parameters.items()}
    actual, _ = eager.scan(cell, x.cuda(), tuple(each.cuda() for each in states), moved)
    torch.testing.assert_close(actual.cpu(), expected, **TOLERANCE[x.dtype])
