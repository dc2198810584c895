"""The op table against torch: values, and every derivative against autograd."""

import math

import pytest
import torch
from conftest import TOLERANCE
from torch.nn import functional

from fastcell.backends.eager import TorchAlgebra
from fastcell.ops import BINARY, FUNCTIONS, NORM_EPSILON, ROWWISE, UNARY, Reads

M = TorchAlgebra()
INFINITY = math.inf

VALUES = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softsign": functional.softsign,
    "softsign_scaled": lambda a: (1 + functional.softsign(a)) / 2,
    "relu": torch.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "exp": torch.exp,
    "neg": torch.neg,
    "abs": torch.abs,
    "rsqrt": torch.rsqrt,
    "layernorm": lambda a: functional.layer_norm(a, a.shape[-1:], eps=NORM_EPSILON),
    "rmsnorm": lambda a: functional.rms_norm(a, a.shape[-1:], eps=NORM_EPSILON),
}
LIMITS = {
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    "softsign_scaled": (0.0, 1.0),
    "relu": (0.0, INFINITY),
    "exp": (0.0, INFINITY),
    "neg": (INFINITY, -INFINITY),
    "abs": (INFINITY, INFINITY),
}
"""What an op tends to at minus and plus infinity, where it has a limit that its formula reaches."""


def points(op, dtype=torch.float64):
    """Zero, small, ordinary and large arguments, within the domain of `op`."""
    sizes = torch.tensor([1e-300, 1e-12, 1e-3, 0.1, 0.5, 1.0, 2.5, 10, 50, 100, 700], dtype=dtype)
    if op == "rsqrt":
        return sizes[1:]
    return torch.cat([-sizes, torch.zeros(1, dtype=dtype), sizes])


def slope_by_formula(op, a):
    saved = {Reads.NOTHING: None, Reads.INPUT: a, Reads.OUTPUT: op.forward(M, a)}[op.reads]
    return op.derivative(M, torch.ones_like(a), saved)


def test_every_op_has_an_expected_value():
    assert VALUES.keys() == UNARY.keys() | ROWWISE.keys()
    assert VALUES.keys() - {"rsqrt"} == FUNCTIONS


@pytest.mark.parametrize("op", UNARY)
def test_unary_value(op):
    a = points(op)
    torch.testing.assert_close(UNARY[op].forward(M, a), VALUES[op](a), **TOLERANCE[a.dtype])


@pytest.mark.parametrize("op", UNARY)
def test_unary_derivative_is_autograd_of_torch(op):
    a = points(op).requires_grad_()
    (expected,) = torch.autograd.grad(VALUES[op](a).sum(), a)
    torch.testing.assert_close(slope_by_formula(UNARY[op], a), expected, **TOLERANCE[a.dtype])


@pytest.mark.parametrize("op", UNARY)
def test_unary_derivative_scales_with_the_incoming_gradient(op):
    a = points(op)
    saved = {Reads.NOTHING: None, Reads.INPUT: a, Reads.OUTPUT: UNARY[op].forward(M, a)}
    g = torch.linspace(-2, 3, len(a), dtype=a.dtype)
    actual = UNARY[op].derivative(M, g, saved[UNARY[op].reads])
    torch.testing.assert_close(actual, g * slope_by_formula(UNARY[op], a))


@pytest.mark.parametrize("op", UNARY)
def test_autograd_of_the_formula_is_autograd_of_torch(op):
    a = points(op).requires_grad_()
    (actual,) = torch.autograd.grad(UNARY[op].forward(M, a).sum(), a)
    (expected,) = torch.autograd.grad(VALUES[op](a).sum(), a)
    torch.testing.assert_close(actual, expected, **TOLERANCE[a.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("op", LIMITS)
def test_limits(op, dtype):
    a = torch.tensor([-INFINITY, INFINITY], dtype=dtype)
    expected = torch.tensor(LIMITS[op], dtype=dtype)
    torch.testing.assert_close(UNARY[op].forward(M, a), expected, rtol=0, atol=0)


@pytest.mark.parametrize("op", ["sigmoid", "tanh", "softsign", "softsign_scaled"])
def test_squashing_ops_are_flat_at_infinity(op):
    a = torch.tensor([-INFINITY, INFINITY], dtype=torch.float64, requires_grad=True)
    UNARY[op].forward(M, a).sum().backward()
    assert a.grad.tolist() == [0, 0]
    assert slope_by_formula(UNARY[op], a.detach()).tolist() == [0, 0]


@pytest.mark.parametrize("op", ["sigmoid", "tanh", "softsign", "softsign_scaled"])
def test_squashing_ops_saturate_and_stay_finite(op):
    a = torch.tensor([-3e38, -1e30, -88, 88, 1e30, 3e38], dtype=torch.float32, requires_grad=True)
    y = UNARY[op].forward(M, a)
    y.sum().backward()
    assert y.isfinite().all()
    assert a.grad.isfinite().all()


@pytest.mark.parametrize("op", UNARY)
def test_nan_stays_nan(op):
    assert UNARY[op].forward(M, torch.tensor([torch.nan])).isnan().all()


@pytest.mark.parametrize("op", ROWWISE)
@pytest.mark.parametrize("width", [1, 2, 7, 33])
@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 1e6])
def test_rowwise_value_and_derivative(op, width, scale):
    torch.manual_seed(0)
    a = (torch.randn(5, width, dtype=torch.float64) * scale).requires_grad_()
    g = torch.randn(5, width, dtype=torch.float64)
    actual, expected = ROWWISE[op].forward(M, a), VALUES[op](a)
    torch.testing.assert_close(actual, expected, **TOLERANCE[a.dtype])
    (actual,) = torch.autograd.grad(actual, a, g)
    (expected,) = torch.autograd.grad(expected, a, g)
    # The slope grows as 1 / scale, up to NORM_EPSILON ** -0.5: so does the rounding.
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("op", "expected"), [("add", 8.5), ("sub", 3.5), ("mul", 15.0), ("div", 2.4)]
)
def test_binary_value(op, expected):
    assert BINARY[op].forward(6.0, 2.5) == expected


def test_products_bind_tighter_than_sums():
    precedence = {BINARY[op].symbol: BINARY[op].precedence for op in BINARY}
    assert precedence["+"] == precedence["-"] < precedence["*"] == precedence["/"]
