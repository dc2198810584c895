"""Published cells, each as its paper's equations. `CELLS` has them by name."""

from .ir import Cell
from .language import parse

rnn: Cell = parse("""
def rnn(x, h):
    g = tanh(linear(x, h))
    return g
""")
"""h' = tanh(W[x; h] + b). Elman, "Finding structure in time", 1990."""

lstm: Cell = parse("""
def lstm(x, h, c):
    i = sigmoid(linear(x, h))
    f = sigmoid(linear(x, h))
    g = tanh(linear(x, h))
    o = sigmoid(linear(x, h))
    c_new = f * c + i * g
    return o * tanh(c_new), c_new
""")
"""Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000, as torch.nn.LSTM."""

gru: Cell = parse("""
def gru(x, h):
    r = sigmoid(linear(x, h))
    z = sigmoid(linear(x, h))
    n_x = linear(x)
    n_h = linear(h)
    n = tanh(n_x + r * n_h)
    return (1 - z) * n + z * h
""")
"""Cho et al. 2014 with the reset gate after the product, bias inside it, as torch.nn.GRU."""

peephole_lstm: Cell = parse("""
def peephole_lstm(x, h, c):
    i_peep = vector(0)
    f_peep = vector(0)
    o_peep = vector(0)
    i = sigmoid(linear(x, h) + i_peep * c)
    f = sigmoid(linear(x, h) + f_peep * c)
    g = tanh(linear(x, h))
    c_new = f * c + i * g
    o = sigmoid(linear(x, h) + o_peep * c_new)
    return o * tanh(c_new), c_new
""")
"""Gers, Schraudolph and Schmidhuber, "Learning precise timing", 2002."""

layernorm_lstm: Cell = parse("""
def layernorm_lstm(x, h, c):
    i_gain = vector(1)
    f_gain = vector(1)
    g_gain = vector(1)
    o_gain = vector(1)
    c_gain = vector(1)
    i_shift = vector(0)
    f_shift = vector(0)
    g_shift = vector(0)
    o_shift = vector(0)
    c_shift = vector(0)
    i = sigmoid(layernorm(linear(x, h, bias=False)) * i_gain + i_shift)
    f = sigmoid(layernorm(linear(x, h, bias=False)) * f_gain + f_shift)
    g = tanh(layernorm(linear(x, h, bias=False)) * g_gain + g_shift)
    o = sigmoid(layernorm(linear(x, h, bias=False)) * o_gain + o_shift)
    c_new = f * c + i * g
    return o * tanh(layernorm(c_new) * c_gain + c_shift), c_new
""")
"""Ba, Kiros and Hinton 2016, each gate normalised on its own."""

mgu: Cell = parse("""
def mgu(x, h):
    f = sigmoid(linear(x, h))
    candidate = tanh(linear(x, f * h))
    return (1 - f) * h + f * candidate
""")
"""The minimal gated unit: one gate, GRU's update and reset at once. Zhou et al. 2016."""

adding_dag: Cell = parse("""
def adding_dag(x, h, c):
    g = tanh(linear(x, h))
    gate0 = gate(c, x, g)
    add = c + g + gate0 + h + x
    gate2 = gate(g, gate0, x)
    gate1 = gate(add, x, tanh(gate2))
    return h + gate1, gate1
""")
"""The cell that a search over 1,000,000 candidates found for the Adding task."""

lswm: Cell = parse("""
def lswm(x, h):
    alpha = scalar(2)
    x_new = softsign(x + h) * alpha
    f = softsign_scaled(linear(x_new + h))
    i_x = linear(x)
    i_h = linear(h)
    i = softsign_scaled(i_x + i_h)
    candidate = softsign_scaled(f * h + i * x_new)
    o = softsign(linear(x_new + h))
    return o * candidate
""")
"""The short working memory of LSWM: no exponential, sums in place of concatenation."""

lswm_cec: Cell = parse("""
def lswm_cec(x, h):
    f = softsign_scaled(linear(x, h))
    i = softsign_scaled(linear(x, h))
    o = softsign_scaled(linear(x, h))
    candidate = softsign(linear(x, h))
    return o * (f * candidate + i * x)
""")
"""The modified LSWM step: x as it comes, a gated candidate in place of the saturating one.

Its author writes the biases of the input's and the state's product separately; only their sum
matters, so each gate has one."""

CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        rnn,
        lstm,
        gru,
        peephole_lstm,
        layernorm_lstm,
        mgu,
        adding_dag,
        lswm,
        lswm_cec,
    )
}
