"""torch.nn's recurrent layers as cells, and its stacked weights as their parameters.

torch stacks the weights of the gates, and keeps those of the input apart from those of the state,
each with a bias. Here each gate is the sum of two linears, so that every parameter of the cell is
a view of torch's tensor: nothing is copied, and gradients land where torch has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn.functional import pad

from .ir import Cell
from .language import parse

_LSTM = """
def lstm(x, h, c):
    i_x = linear(x)
    i_h = linear(h)
    f_x = linear(x)
    f_h = linear(h)
    g_x = linear(x)
    g_h = linear(h)
    o_x = linear(x)
    o_h = linear(h)
    c_new = sigmoid(f_x + f_h) * c + sigmoid(i_x + i_h) * tanh(g_x + g_h)
"""
_RNN = """
def rnn(x, h):
    g_x = linear(x)
    g_h = linear(h)
"""
_GRU = """
def gru(x, h):
    r_x = linear(x)
    r_h = linear(h)
    z_x = linear(x)
    z_h = linear(h)
    n_x = linear(x)
    n_h = linear(h)
    n = tanh(n_x + sigmoid(r_x + r_h) * n_h)
    z = sigmoid(z_x + z_h)
    return (1 - z) * n + z * h
"""
PROJECTED = "LSTM with projection"
_TEXTS = {
    "LSTM": f"{_LSTM}    return sigmoid(o_x + o_h) * tanh(c_new), c_new",
    PROJECTED: f"""{_LSTM}    p = linear(sigmoid(o_x + o_h) * tanh(c_new), bias=False)
    return p, c_new""",
    "GRU": _GRU,
    "RNN_TANH": f"{_RNN}    return tanh(g_x + g_h)",
    "RNN_RELU": f"{_RNN}    return relu(g_x + g_h)",
}
_GATES = {"LSTM": "ifgo", PROJECTED: "ifgo", "GRU": "rzn", "RNN_TANH": "g", "RNN_RELU": "g"}


def _cells() -> Iterator[tuple[tuple[str, bool], Cell]]:
    for mode, text in _TEXTS.items():
        for cell in (parse(text), parse(text).without_bias()):
            cell.text  # noqa: B018  made now: a tracer follows what is not yet there
            yield (mode, any(node.bias for node in cell.nodes)), cell


_CELLS = dict(_cells())


def torch_cell(mode: str, bias: bool) -> Cell:
    """The cell of a layer in torch's `mode`, or PROJECTED: h' = W_hr (o * tanh(c')).

    A cell has one hidden size. That of the projected LSTM is c's; h, which is narrower, is filled
    up with zeros, and so are the weights that read or make it: see `torch_parameters`.
    """
    return _CELLS[mode, bias]


def torch_parameters(mode: str, hidden_size: int, *stacked: Tensor) -> dict[str, Tensor]:
    """The cell's parameters as views of torch's tensors, in the order of `Cell.parameters`.

    `stacked` as torch orders them: weight_ih (G * H, I), weight_hh (G * H, H), with biases
    bias_ih and bias_hh (G * H,), and when PROJECTED weight_hr (P, H), with weight_hh (G * H, P).
    """
    if mode != PROJECTED:
        return dict(_gates(mode, hidden_size, *stacked))
    weight_ih, weight_hh, *biases, weight_hr = stacked
    missing = hidden_size - weight_hr.shape[0]
    parameters = dict(_gates(mode, hidden_size, weight_ih, pad(weight_hh, (0, missing)), *biases))
    return parameters | {"p.weight": pad(weight_hr, (0, 0, 0, missing))}


def _gates(mode: str, hidden_size: int, *stacked: Tensor) -> Iterator[tuple[str, Tensor]]:
    weight_ih, weight_hh, *biases = [tensor.split(hidden_size) for tensor in stacked]
    for at, gate in enumerate(_GATES[mode]):
        for source, weight in (("x", weight_ih), ("h", weight_hh)):
            yield f"{gate}_{source}.weight", weight[at]
            if biases:
                yield f"{gate}_{source}.bias", biases["xh".index(source)][at]
