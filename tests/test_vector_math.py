"""The elementwise functions of the C++ tile machine against many digits."""

import functools

import mpmath
import numpy as np
import pytest
from assembler import DTYPES, apply, close, random

from fastcell import _C

pytestmark = pytest.mark.usefixtures("isa")


@pytest.fixture(autouse=True, scope="module")
def many_digits():
    """1 + softsign(-1e30) has 30 digits less than softsign(-1e30)."""
    with mpmath.workprec(300):
        yield


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
    slopes = [
        UNARY[name][1](mpmath.mpf(float(a)), mpmath.mpf(float(b)))
        for a, b in zip(x, y, strict=True)
    ]
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
    if name in {"sigmoid", "tanh", "softsign", "softsign_scaled", "relu", "silu", "gelu"}:
        assert low == 0
        assert high == int(name in {"relu", "silu", "gelu"})
    if name in {"relu", "abs"}:
        assert middle == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_operands(dtype):
    a, b, c = (random(77, dtype=dtype, seed=i) for i in range(3))
    for name, reference in BINARY.items():
        np.testing.assert_array_equal(apply(name, a, b, dtype=dtype), reference(a, b))
    exact = a.astype(np.longdouble) * b + c
    assert close(apply("muladd", a, b, c, dtype=dtype), exact, abs(a * b) + abs(c), dtype)
