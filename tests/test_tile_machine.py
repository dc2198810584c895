"""The C++ tile machine on its own: products, memory and control, against numpy."""

import numpy as np
import pytest
from assembler import DTYPES, SIZES, Assembler, apply, close, random
from lstm_program import lstm, lstm_arguments, lstm_by_hand

from fastcell import _C

pytestmark = pytest.mark.usefixtures("isa")


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (9, 33, 7, 91), (48, 5, 64, 64)])
def test_lstm(sizes, dtype):
    """(T, B, I, H)"""
    arguments = lstm_arguments(*sizes, dtype)
    expected = [a.astype(np.float64) for a in arguments]
    lstm_by_hand(*expected)
    for threads in [1, 2, 3]:
        arguments[-2][:] = arguments[-1][:] = 7
        lstm(*arguments).run(*sizes[:2], threads)
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
