"""The C++ tile machine on its own: functions, products, memory and control, against numpy.

Programs are put together by hand here, in the encoding of csrc/program.h.
"""

import functools
import multiprocessing
import re
import threading

import mpmath
import numpy as np
import pytest

from fastcell import _C

SIZES = [1, 7, 16, 64, 91, 105, 130, 300]
DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}  # of a sum, relative to that of absolute values


@pytest.fixture(autouse=True, scope="module")
def many_digits():
    """1 + softsign(-1e30) has 30 digits less than softsign(-1e30)."""
    with mpmath.workprec(300):
        yield


@pytest.fixture(autouse=True, params=_C.isas())
def isa(request, monkeypatch):
    """Every test runs on every instruction set there is."""
    monkeypatch.setenv("FASTCELL_ISA", request.param)
    return request.param


class Assembler:
    """A Program in the making; tensors are numpy arrays, operands a buffer or (buffer, column)."""

    def __init__(self, dtype="float32", reverse=False):
        self.dtype, self.reverse = dtype, reverse
        self.tensors, self.buffers, self.code = [], [], []

    def tensor(self, array):
        """The number of a tensor (T, B, width), (B, width) or (rows, columns); None: absent."""
        self.tensors.append(array)
        return len(self.tensors) - 1

    def buffer(self, kind, width, rows=0, tensor_a=-1, tensor_b=-1):
        self.buffers.append((_C.KINDS[kind], rows, width, tensor_a, tensor_b))
        return len(self.buffers) - 1

    def emit(self, section, opcode, width, dst, a=-1, b=-1, c=-1, extra0=0, extra1=0):
        operands = [each if isinstance(each, tuple) else (each, 0) for each in (dst, a, b, c)]
        fields = sum(operands, ()) + (width, extra0, extra1)
        self.code.append((_C.SECTIONS[section], _C.OPCODES[opcode], *fields))

    def assemble(self):
        buffers = np.array(self.buffers, np.int32).reshape(-1, 5)
        code = np.array(self.code, np.int32).reshape(-1, 13)
        return _C.ScanProgram(self.dtype, len(self.tensors), buffers, code, self.reverse)

    def described(self):
        """What `run` wants to know of the tensors."""
        rows = [(0, 0, 0) if t is None else describe(t) for t in self.tensors]
        return np.array(rows, np.int64).reshape(-1, 3)

    def run(self, T=1, B=1, threads=1):
        self.assemble().run(self.described(), T, B, threads)


def describe(tensor):
    strides = [stride // tensor.itemsize for stride in tensor.strides]
    return tensor.ctypes.data, strides[0] if tensor.ndim == 3 else 0, strides[-2]


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, expected, scale, dtype):
    """As a sum should be, whose absolute values add up to `scale`."""
    return np.all(np.abs(found - expected) <= TOLERANCE[dtype] * (scale + 1e-30))


# --- Elementwise functions ------------------------------------------------------------------------


def apply(opcode, *operands, dtype):
    """One elementwise instruction on flat arrays."""
    size = operands[0].size
    out = np.full((size, 1), 7, dtype)
    asm = Assembler(dtype)
    tile = [asm.buffer("TILE", 1) for _ in range(3)]
    for buffer, operand in zip(tile, operands, strict=False):
        column = asm.tensor(np.ascontiguousarray(operand, dtype).reshape(-1, 1))
        asm.emit("LOOP", "load", 1, buffer, column)
    asm.emit("LOOP", opcode, 1, tile[0], *tile)
    asm.emit("LOOP", "store", 1, asm.tensor(out), tile[0])
    asm.run(B=size)
    return out[:, 0]


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def softsign(x):
    return x / (1 + abs(x))


# Each unary operation: its value; its derivative, by what it reads of x and y; its limits.
UNARY = {
    "sigmoid": (logistic, lambda x, y: y * (1 - y), (0, 1)),
    "tanh": (mpmath.tanh, lambda x, y: 1 - y * y, (-1, 1)),
    "softsign": (softsign, lambda x, y: (1 + abs(x)) ** -2, (-1, 1)),
    "softsign_scaled": (
        lambda x: (1 + softsign(x)) / 2,
        lambda x, y: (1 + abs(x)) ** -2 / 2,
        (0, 1),
    ),
    "relu": (lambda x: max(x, 0), lambda x, y: int(y > 0), (0, np.inf)),
    "silu": (
        lambda x: x * logistic(x),
        lambda x, y: logistic(x) * (1 + x * logistic(-x)),
        (0, np.inf),
    ),
    "gelu": (
        lambda x: x * mpmath.ncdf(x),
        lambda x, y: mpmath.ncdf(x) + x * mpmath.npdf(x),
        (0, np.inf),
    ),
    "exp": (mpmath.exp, lambda x, y: y, (0, np.inf)),
    "neg": (lambda x: -x, lambda x, y: -1, (np.inf, -np.inf)),
    "abs": (abs, lambda x, y: mpmath.sign(x), (np.inf, np.inf)),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda x, y: -(y**3) / 2, (np.nan, 0)),
    "sign": (mpmath.sign, lambda x, y: 0, (-1, 1)),
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def points(name, dtype):
    """Arguments of all sizes, near 0, where exponentials end, and where tails do."""
    near = np.linspace(-12, 12, 400)
    wide = np.linspace(-110, 110, 221) if dtype == "float32" else np.linspace(-760, 760, 305)
    sizes = np.geomspace(1e-30, 1e30, 121)
    x = np.concatenate([near, wide, sizes, -sizes, [-50.0, 50.0, 0.0]]).astype(dtype)
    return x[x > 0] if name == "rsqrt" else x


def ulps(found, exact, least=0):
    """The largest error, in units of the last place of max(|exact|, least).

    Tails of a thousand times the smallest normal number may be 0: see csrc/math.h.
    """
    info = np.finfo(found.dtype)
    worst = 0.0
    for value, e, floor in zip(found, exact, np.broadcast_to(least, found.shape), strict=True):
        if max(abs(value), abs(e)) < 1000 * info.tiny:
            continue
        if abs(e) > info.max:
            assert value == np.inf * int(mpmath.sign(e))
            continue
        unit = np.spacing(found.dtype.type(max(abs(e), floor)))
        worst = max(worst, float(abs(mpmath.mpf(float(value)) - e) / mpmath.mpf(float(unit))))
    return worst


@functools.cache
def exact_values(name, dtype):
    return [UNARY[name][0](mpmath.mpf(float(x))) for x in points(name, dtype)]


def test_every_operation_is_tested():
    gradients = {f"{name}_grad" for name in UNARY}
    elementwise = set(_C.OPCODES) - set(list(_C.OPCODES)[: _C.OPCODES["zero"] + 1])
    assert elementwise == set(UNARY) | gradients | set(BINARY) | {"muladd"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_values_are_accurate(name, dtype):
    found = apply(name, points(name, dtype), dtype=dtype)
    bound = {"gelu": 10, "silu": 3}.get(name, 2 if dtype == "float32" else 2.5)
    assert ulps(found, exact_values(name, dtype)) <= bound


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_gradients_are_accurate(name, dtype):
    x = points(name, dtype)
    x = x[abs(x) < 1e9]
    y = apply(name, x, dtype=dtype)
    g = random(x.size, dtype=dtype)
    saved = x if _C.DERIVATIVE_READS[name] == "input" else y
    found = apply(f"{name}_grad", g, saved, dtype=dtype)
    slopes = [UNARY[name][1](mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y)]
    exact = [mpmath.mpf(float(a)) * slope for a, slope in zip(g, slopes, strict=True)]
    cancels = name in {"tanh", "silu", "gelu"}  # where terms of either sign meet
    assert ulps(found, exact, least=abs(g) if cancels else 0) <= (10 if cancels else 5)


@pytest.mark.parametrize("name", UNARY)
def test_the_table_of_derivatives_is_right(name):
    value, derivative, _ = UNARY[name]
    for x in [0.3, 1.7] if name == "rsqrt" else [-2.2, -0.4, 0.3, 1.7]:
        assert derivative(x, value(x)) == pytest.approx(float(mpmath.diff(value, x)), abs=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_specials(name, dtype):
    low, high, nan = apply(name, np.array([-np.inf, np.inf, np.nan]), dtype=dtype)
    np.testing.assert_array_equal([low, high], UNARY[name][2])
    assert np.isnan(nan)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_gradients_of_specials(name, dtype):
    """Where a function levels off, its gradient is 0, however far out."""
    x = np.array([-np.inf, np.inf, 0.0])
    y = apply(name, x, dtype=dtype)
    saved = x if _C.DERIVATIVE_READS[name] == "input" else y
    low, high, middle = apply(f"{name}_grad", np.ones(3), saved, dtype=dtype)
    if name in {"sigmoid", "tanh", "softsign", "softsign_scaled", "relu", "silu", "gelu", "sign"}:
        assert low == 0
        assert high == int(name in {"relu", "silu", "gelu"})
    if name in {"relu", "abs", "sign"}:
        assert middle == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_operands(dtype):
    a, b, c = (random(77, dtype=dtype, seed=i) for i in range(3))
    for name, reference in BINARY.items():
        np.testing.assert_array_equal(apply(name, a, b, dtype=dtype), reference(a, b))
    exact = a.astype(np.longdouble) * b + c
    assert close(apply("muladd", a, b, c, dtype=dtype), exact, abs(a * b) + abs(c), dtype)


# --- Products -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("N", SIZES)
def test_gemm(K, N, dtype):
    rows = 1 + (K + 3 * N) % 40
    x, w, bias, y = (
        random(*shape, dtype=dtype, seed=i)
        for i, shape in enumerate([(rows, K), (N, K), (1, N), (rows, N)])
    )
    asm = Assembler(dtype)
    source, result = asm.buffer("TILE", K), asm.buffer("TILE", N)
    weight = asm.buffer("WEIGHT", N, rows=K)
    row = asm.buffer("ROW", N, rows=N, tensor_a=asm.tensor(bias))
    ones = asm.buffer("ROW", K, rows=1, tensor_a=asm.tensor(np.ones((1, 1), dtype)))
    outs = {mode: np.zeros_like(y) for mode in _C.GEMM_MODES}
    asm.emit("SETUP", "pack", N, weight, asm.tensor(w), (0, 0), (0, 0), extra0=K, extra1=1)
    asm.emit("LOOP", "load", K, source, asm.tensor(x))
    asm.emit("LOOP", "div", K, source, source, ones)  # the pads become 0 / 0
    for mode, out in outs.items():
        asm.emit("LOOP", "load", N, result, asm.tensor(y))
        asm.emit("LOOP", "gemm", N, result, source, weight, row, extra0=_C.GEMM_MODES[mode])
        asm.emit("LOOP", "store", N, asm.tensor(out), result)
    asm.run(B=rows)
    product = x.astype(np.longdouble) @ w.T
    scale = abs(x).astype(np.longdouble) @ abs(w.T) + abs(bias) + abs(y)
    for mode, more in {"SET": 0, "ADD": y, "BIAS": bias}.items():
        assert close(outs[mode], product + more, scale, dtype), mode


@pytest.mark.parametrize("rows", [1, 40, 300])
def test_a_weight_of_several_blocks(rows):
    """Packed side by side and one below the other, as they are and transposed, apart by zeros."""
    above, below = random(5, 40), random(30, 9, seed=1)
    x, out = random(rows, 36, seed=2), np.zeros((rows, 70), "float32")
    w = np.zeros((36, 70), "float32")
    w[1:5, 2:41], w[6:15, 40:69] = above[1:, 1:], below[1:].T
    asm = Assembler()
    source, result = asm.buffer("TILE", 36), asm.buffer("TILE", 70)
    weight = asm.buffer("WEIGHT", 70, rows=36)
    asm.emit("SETUP", "pack", 39, weight, asm.tensor(above), (1, 1), (1, 2), extra0=4)
    asm.emit("SETUP", "pack", 29, weight, asm.tensor(below), (1, 0), (6, 40), extra0=9, extra1=1)
    asm.emit("LOOP", "load", 36, source, asm.tensor(x))
    asm.emit("LOOP", "gemm", 70, result, source, weight)
    asm.emit("LOOP", "store", 70, asm.tensor(out), result)
    asm.run(B=rows, threads=2)
    assert close(out, x.astype(np.longdouble) @ w, abs(x) @ abs(w), "float32")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("N", SIZES)
def test_sums_over_all_rows(K, N, dtype, threads):
    T, B = 1 + K % 5, 1 + N % 37
    a, b = random(T, B, N, dtype=dtype), random(T, B, K, dtype=dtype, seed=1)
    product, total = np.full((N, K), 7, dtype), np.full((1, N), 7, dtype)
    asm = Assembler(dtype)
    left, right = asm.buffer("CHUNK", N), asm.buffer("CHUNK", K)
    matrix, row = asm.buffer("GRAD", K, rows=N), asm.buffer("GRAD", N, rows=1)
    asm.emit("PRE", "load", N, left, asm.tensor(a))
    asm.emit("PRE", "load", K, right, asm.tensor(b))
    asm.emit("POST", "outer", K, matrix, left, right, extra0=N)
    asm.emit("POST", "sumrows", N, row, left)
    asm.emit("FINISH", "unpack", K, asm.tensor(product), matrix, (0, 0), (0, 0), extra0=N)
    asm.emit("FINISH", "unpack", N, asm.tensor(total), row, (0, 0), (0, 0), extra0=1)
    asm.run(T, B, threads)
    a, b = a.reshape(-1, N), b.reshape(-1, K)
    assert close(product, a.T.astype(np.longdouble) @ b, abs(a.T) @ abs(b), dtype)
    assert close(total, a.sum(0, np.longdouble), abs(a).sum(0), dtype)
    again = product.copy(), total.copy()
    asm.run(T, B, threads)
    assert np.array_equal(again[0], product)
    assert np.array_equal(again[1], total)


def test_unpack_writes_blocks():
    a, b, out = random(6, 20), random(6, 40, seed=1), np.zeros((9, 50), "float32")
    asm = Assembler()
    left, right = asm.buffer("TILE", 20), asm.buffer("TILE", 40)
    grad = asm.buffer("GRAD", 40, rows=25)
    asm.emit("LOOP", "load", 20, left, asm.tensor(a))
    asm.emit("LOOP", "load", 40, right, asm.tensor(b))
    asm.emit("LOOP", "outer", 40, (grad, 5), left, right, extra0=20)
    asm.emit("FINISH", "unpack", 10, asm.tensor(out), grad, (2, 3), (7, 16), extra0=6)
    asm.run(B=6, threads=2)
    expected = np.zeros_like(out)
    expected[2:8, 3:13] = (a.T @ b)[2:8, 16:26]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", SIZES)
def test_mean(width, dtype):
    x = 1000 + random(9, width, dtype=dtype)
    out = np.zeros((9, width), dtype)
    asm = Assembler(dtype)
    tile = asm.buffer("TILE", width)
    asm.emit("LOOP", "load", width, tile, asm.tensor(x))
    asm.emit("LOOP", "mean", width, tile, tile)
    asm.emit("LOOP", "store", width, asm.tensor(out), tile)
    asm.run(B=9)
    exact = x.mean(1, np.longdouble, keepdims=True)
    exact = np.broadcast_to(exact, out.shape)
    np.testing.assert_allclose(out, exact, rtol=6e-8 if dtype == "float32" else 1e-15)


# --- Memory and control ---------------------------------------------------------------------------

SHAPES = [(1, 1), (1, 5), (2, 1), (3, 33), (7, 64), (48, 3), (97, 41)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("section", ["PRE", "LOOP"])
@pytest.mark.parametrize(("T", "B"), SHAPES)
def test_load_and_store(T, B, section, threads):
    """A sequence and the one a step before it, with any strides over time and batch."""
    x, h0 = random(B, T, 25)[:, :, 3:14].swapaxes(0, 1), random(B, 30, seed=1)
    shifted, missing = np.zeros((2, T, B, 20), "float32")
    asm = Assembler()
    now, before, absent = (asm.buffer("CHUNK", 11) for _ in range(3))
    sequence, state = asm.tensor(x), asm.tensor(h0)
    asm.emit(section, "load", 11, now, sequence)
    asm.emit(section, "load", 11, before, sequence, (state, 7), extra0=-1)
    asm.emit(section, "load", 11, absent, asm.tensor(None), extra0=-1)
    asm.emit("LOOP", "add", 11, absent, absent, now)
    asm.emit("POST", "store", 11, (asm.tensor(shifted), 2), before)
    asm.emit("POST", "store", 11, asm.tensor(missing), absent)
    asm.emit("POST", "store", 11, asm.tensor(None), now)
    asm.run(T, B, threads)
    expected = np.zeros_like(shifted)
    expected[0, :, 2:13], expected[1:, :, 2:13] = h0[:, 7:18], x[:-1]
    np.testing.assert_array_equal(shifted, expected)
    np.testing.assert_array_equal(missing[:, :, :11], x)
    assert not missing[:, :, 11:].any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("T", "B"), SHAPES)
def test_carry(T, B, reverse, threads):
    """s = s / 2 + x r, from s0 or from zero, with a row r and an element to repeat."""
    x, s0, r, two = random(T, B, 5), random(B, 5, seed=1), random(1, 5, seed=2), np.full((1, 1), 2)
    out, last = np.zeros_like(x), np.zeros((2, B, 5), "float32")
    asm = Assembler(reverse=reverse)
    tile = asm.buffer("TILE", 5)
    row = asm.buffer("ROW", 5, rows=5, tensor_a=asm.tensor(r))
    repeated = asm.buffer("ROW", 5, rows=1, tensor_a=asm.tensor(two.astype("float32")))
    starts = [asm.tensor(s0), -1]
    carries = [
        asm.buffer("CARRY", 5, tensor_a=start, tensor_b=asm.tensor(end))
        for start, end in zip(starts, last, strict=True)
    ]
    asm.emit("LOOP", "load", 5, tile, asm.tensor(x))
    for carry in carries:
        asm.emit("LOOP", "div", 5, carry, carry, repeated)
        asm.emit("LOOP", "muladd", 5, carry, tile, row, carry)
    asm.emit("LOOP", "store", 5, asm.tensor(out), carries[0])
    asm.run(T, B, threads)
    expected, from_zero, steps = s0, np.zeros_like(s0), np.zeros_like(x)
    for t in reversed(range(T)) if reverse else range(T):
        expected, from_zero = expected / 2 + x[t] * r, from_zero / 2 + x[t] * r
        steps[t] = expected
    for found, reference in [(out, steps), (last[0], expected), (last[1], from_zero)]:
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-6)


def lstm(x, h0, c0, w, u, bias, out, last):
    """nn.LSTM's layer (gates i f g o), its product with x hoisted, as a Program."""
    (I, H), dtype = (x.shape[2], h0.shape[1]), x.dtype.name
    asm, slot = Assembler(dtype), -(-H // _C.LANES) * _C.LANES
    N = 3 * slot + H
    gates, chunk = asm.buffer("CHUNK", N), asm.buffer("CHUNK", I)
    h = asm.buffer("CARRY", H, tensor_a=asm.tensor(h0), tensor_b=asm.tensor(last[0]))
    c = asm.buffer("CARRY", H, tensor_a=asm.tensor(c0), tensor_b=asm.tensor(last[1]))
    spread = np.zeros((1, N), dtype)
    for gate in range(4):
        spread[0, gate * slot :][:H] = bias[gate * H :][:H]
    row = asm.buffer("ROW", N, rows=N, tensor_a=asm.tensor(spread))
    of_x, of_h = asm.buffer("WEIGHT", N, rows=I), asm.buffer("WEIGHT", N, rows=H)
    for weight, parameter, K in [(of_x, asm.tensor(w), I), (of_h, asm.tensor(u), H)]:
        for gate in range(4):
            block, place = (gate * H, 0), (0, gate * slot)
            asm.emit("SETUP", "pack", H, weight, parameter, block, place, extra0=K, extra1=1)
    i, f, g, o = ((gates, gate * slot) for gate in range(4))
    asm.emit("PRE", "load", I, chunk, asm.tensor(x))
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


def lstm_arguments(T, B, I, H, dtype="float32"):
    shapes = [(T, B, I), (B, H), (B, H), (4 * H, I), (4 * H, H), (4 * H,)]
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "B", "I", "H"), [(1, 1, 1, 1), (9, 33, 7, 91), (48, 5, 64, 64)])
def test_lstm(T, B, I, H, dtype):
    arguments = lstm_arguments(T, B, I, H, dtype)
    expected = [a.astype(np.float64) for a in arguments]
    lstm_by_hand(*expected)
    for threads in [1, 2, 3]:
        arguments[-2][:] = arguments[-1][:] = 7
        lstm(*arguments).run(T, B, threads)
        for found, reference in zip(arguments[-2:], expected[-2:], strict=True):
            np.testing.assert_allclose(found, reference, atol=1e-6 if dtype == "float32" else 1e-14)


def test_one_program_for_every_shape():
    """The workspace of one run serves the next, larger or smaller."""
    program = lstm(*lstm_arguments(1, 1, 20, 30)).assemble()
    for T, B, threads in [(3, 5, 1), (50, 70, 2), (1, 1, 1), (50, 70, 2), (2, 9, 2)]:
        arguments = lstm_arguments(T, B, 20, 30)
        asm = lstm(*arguments)
        program.run(asm.described(), T, B, threads)
        found = arguments[-1].copy()
        lstm_by_hand(*arguments)
        np.testing.assert_allclose(found, arguments[-1], atol=1e-6)


def test_nothing_to_do():
    arguments = lstm_arguments(0, 3, 4, 5)
    lstm(*arguments).run(T=0, B=3)
    np.testing.assert_array_equal(arguments[-1], [arguments[1], arguments[2]])
    lstm(*lstm_arguments(3, 0, 4, 5)).run(T=3, B=0, threads=2)


def test_denormals_count_as_zero_and_only_during_a_run():
    tiny = np.array([1e-39, 1.0], "float32")
    assert apply("mul", tiny, np.array([1e6, 1.0]), dtype="float32")[0] == 0
    assert (tiny * np.float32(0.5))[0] > 0


# --- Threads, processes, faults -------------------------------------------------------------------


def test_several_python_threads_at_once():
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16)
    program = lstm(*arguments).assemble()
    wrong = []

    def work():
        mine = [*arguments[:6], np.zeros_like(arguments[6]), np.zeros_like(arguments[7])]
        asm = lstm(*mine)
        for _ in range(20):
            program.run(asm.described(), 20, 16, 2)
            wrong.extend(a is b for a, b in zip(mine, arguments) if not np.array_equal(a, b))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run_in_child(queue):
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16, threads=2)
    queue.put(arguments[-1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork():
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16, threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=run_in_child, args=(queue,))
    child.start()
    found = queue.get(timeout=30)
    child.join()
    np.testing.assert_array_equal(found, arguments[-1])


def test_profile():
    arguments = lstm_arguments(20, 16, 30, 40)
    asm = lstm(*arguments)
    seconds = asm.assemble().profile(asm.described(), 20, 16, 2)
    assert set(seconds) == {"pack", "load", "gemm", "sigmoid", "tanh", "mul", "muladd", "store"}
    assert all(0 < s < 10 for s in seconds.values())


def test_fma_peak_and_workspace():
    assert _C.fma_peak(threads=1, seconds=0.01) > 1e9
    program = lstm(*lstm_arguments(1, 1, 64, 64)).assemble()
    weights = 2 * 64 * 256 * 4
    assert weights < program.workspace_bytes(T=48, B=64, threads=2) < weights + (1 << 20)


def test_the_instruction_set_is_chosen_by_name(isa, monkeypatch):
    assert _C.isa() == isa == Assembler().assemble().isa
    monkeypatch.setenv("FASTCELL_ISA", "mmx")
    with pytest.raises(ValueError, match=r"FASTCELL_ISA: found mmx, this machine supports portable"):
        Assembler().assemble()


FAULTS = {
    "buffer 0: kind: found 6": lambda asm: asm.buffers.insert(0, (6, 0, 4, -1, -1)),
    "buffer 2: width: found 0": lambda asm: asm.buffer("TILE", 0),
    "buffer 2: rows: found 3, expected 1 or its width": lambda asm: asm.buffer("ROW", 4, 3, 0),
    "buffer 2: tensor_a: found 9": lambda asm: asm.buffer("ROW", 4, 4, 9),
    "buffer 2: tensor_b: found 1": lambda asm: asm.buffer("CARRY", 4, 0, -1, 1),
    "buffer 2: rows: found 16777217": lambda asm: asm.buffer("GRAD", 4, (1 << 24) + 1),
    "opcode: found -1": lambda asm: asm.code.append((0, -1, *[0] * 11)),
    "section: found 5": lambda asm: asm.code.append((5, 0, *[0] * 11)),
    "load: section: found SETUP, expected PRE, LOOP": lambda asm: asm.emit("SETUP", "load", 4, 0, 0),
    "unpack: section: found LOOP, expected FINISH": lambda asm: asm.emit("LOOP", "unpack", 4, 0, 0),
    "load: width: found 0": lambda asm: asm.emit("LOOP", "load", 0, 0, 0),
    "load: a: found 1, expected 0 to 0": lambda asm: asm.emit("LOOP", "load", 4, 0, 1),
    "load: extra0: found 1": lambda asm: asm.emit("LOOP", "load", 4, 0, 0, extra0=1),
    "add: dst: found 2, expected 0 to 1": lambda asm: asm.emit("LOOP", "add", 4, 2, 0, 0),
    "add: b: found -1, expected 0 to 1": lambda asm: asm.emit("LOOP", "add", 4, 0, 0),
    "add: dst: found TILE, expected CHUNK": lambda asm: asm.emit("PRE", "add", 4, 0, 1, 1),
    "copy: a: column: found 8": lambda asm: asm.emit("LOOP", "copy", 4, 0, (1, 8)),
    "copy: a: last column: found 48": lambda asm: asm.emit("LOOP", "copy", 4, 0, (1, 32)),
    "copy: a: found columns of dst": lambda asm: asm.emit(
        "LOOP", "copy", 17, (asm.buffer("TILE", 48), 16), 2
    ),
    "mul: dst: found WEIGHT": lambda asm: asm.emit("LOOP", "mul", 4, asm.buffer("WEIGHT", 4, 4), 0, 0),
    "gemm: b: found TILE, expected WEIGHT": lambda asm: asm.emit("LOOP", "gemm", 4, 0, 1, 1),
    "gemm: width: found 5": lambda asm: asm.emit("LOOP", "gemm", 5, 0, 1, asm.buffer("WEIGHT", 4, 4)),
    "gemm: a: found columns of dst": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 1, 1, asm.buffer("WEIGHT", 4, 4)
    ),
    "gemm: a: last column: found 64": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 0, 1, asm.buffer("WEIGHT", 4, 64)
    ),
    "gemm: c: found TILE, expected ROW": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 0, 1, asm.buffer("WEIGHT", 4, 4), 1, extra0=2
    ),
    "outer: a: last column: found 0": lambda asm: asm.emit("LOOP", "outer", 4, asm.buffer("GRAD", 4, 4), 0, 0),
    "outer: first row: found 3": lambda asm: asm.emit(
        "LOOP", "outer", 4, (asm.buffer("GRAD", 4, 4), 3), 0, 0, extra0=2
    ),
    "sumrows: dst: last column: found 32": lambda asm: asm.emit(
        "LOOP", "sumrows", 17, asm.buffer("GRAD", 4, 1), 1
    ),
    "pack: first column: found 1": lambda asm: asm.emit(
        "SETUP", "pack", 4, asm.buffer("WEIGHT", 4, 4), 0, (0, 0), (0, 1), extra0=4
    ),
    "unpack: c: column: found 1": lambda asm: asm.emit(
        "FINISH", "unpack", 1, 0, asm.buffer("GRAD", 4, 4), (0, 0), (0, 1), extra0=1
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_malformed_programs(message):
    """Buffer 0 is a TILE of 4 columns, buffer 1 one of 32; there is one tensor."""
    asm = Assembler()
    asm.buffer("TILE", 4)
    asm.buffer("TILE", 32)
    asm.tensor(np.zeros((1, 1, 4), "float32"))
    FAULTS[message](asm)
    with pytest.raises(ValueError, match=re.escape(message)):
        asm.assemble()


def test_malformed_calls():
    arguments = lstm_arguments(1, 1, 2, 3)
    asm = lstm(*arguments)
    program, described = asm.assemble(), asm.described()
    for message, call in {
        "tensors: found 1, expected 9": (described[:1], 1, 1, 1),
        "tensors: expected an array (tensors, 3)": (described[:, :2], 1, 1, 1),
        "T: found -1": (described, -1, 1, 1),
        "B: found -1": (described, 1, -1, 1),
        "threads: found 0": (described, 1, 1, 0),
        "tensor 4: found 0, expected an address": (described * 0, 1, 1, 1),
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            program.run(*call)
    with pytest.raises(ValueError, match="dtype: found float16"):
        _C.ScanProgram("float16", 0, np.zeros((0, 5), np.int32), np.zeros((0, 13), np.int32), False)
    with pytest.raises(ValueError, match=r"buffers: expected an array \(rows, 5\)"):
        _C.ScanProgram("float32", 0, np.zeros((1, 4), np.int32), np.zeros((0, 13), np.int32), False)
