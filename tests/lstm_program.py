"""An LSTM for the tile machine written by hand, and the same in numpy."""

import numpy as np
from assembler import Assembler, random

from fastcell import _C


def lstm(x, h0, c0, w, u, bias, out, last):
    """nn.LSTM's layer (gates i f g o), its product with x hoisted, as a Program."""
    (width, H), dtype = (x.shape[2], h0.shape[1]), x.dtype.name
    asm, slot = Assembler(dtype), -(-H // _C.LANES) * _C.LANES
    N = 3 * slot + H
    gates, chunk = asm.buffer("CHUNK", N), asm.buffer("CHUNK", width)
    h = asm.buffer("CARRY", H, tensor_a=asm.tensor(h0), tensor_b=asm.tensor(last[0]))
    c = asm.buffer("CARRY", H, tensor_a=asm.tensor(c0), tensor_b=asm.tensor(last[1]))
    spread = np.zeros((1, N), dtype)
    for gate in range(4):
        spread[0, gate * slot :][:H] = bias[gate * H :][:H]
    row = asm.buffer("ROW", N, rows=N, tensor_a=asm.tensor(spread))
    of_x, of_h = asm.buffer("WEIGHT", N, rows=width), asm.buffer("WEIGHT", N, rows=H)
    for weight, parameter, K in [(of_x, asm.tensor(w), width), (of_h, asm.tensor(u), H)]:
        for gate in range(4):
            block, place = (gate * H, 0), (0, gate * slot)
            asm.emit("SETUP", "pack", H, weight, parameter, block, place, extra0=K, extra1=1)
    i, f, g, o = ((gates, gate * slot) for gate in range(4))
    asm.emit("PRE", "load", width, chunk, asm.tensor(x))
    asm.emit("PRE", "gemm", N, gates, chunk, of_x, row, extra0=_C.GEMM_MODES["BIAS"])
    asm.emit("LOOP", "gemm", N, gates, h, of_h, extra0=_C.GEMM_MODES["ADD"])
    asm.emit("LOOP", "sigmoid", 2 * slot, i, i)
    asm.emit("LOOP", "tanh", H, g, g)
    asm.emit("LOOP", "sigmoid", H, o, o)
    asm.emit("LOOP", "mul", H, c, c, f)
    asm.emit("LOOP", "muladd", H, c, i, g, c)
    asm.emit("LOOP", "tanh", H, h, c)
    asm.emit("LOOP", "mul", H, h, h, o)
    asm.emit("LOOP", "store", H, asm.tensor(out), h)
    asm.memory = spread
    return asm


def lstm_arguments(T, B, width, H, dtype="float32"):
    shapes = [(T, B, width), (B, H), (B, H), (4 * H, width), (4 * H, H), (4 * H,)]
    arguments = [random(*s, dtype=dtype, seed=i) * 0.3 for i, s in enumerate(shapes)]
    return [*arguments, np.zeros((T, B, H), dtype), np.zeros((2, B, H), dtype)]


def lstm_by_hand(x, h, c, w, u, bias, out, last):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for t, x_t in enumerate(x):
        i, f, g, o = np.split(x_t @ w.T + h @ u.T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = out[t] = sigmoid(o) * np.tanh(c)
    last[:] = h, c
