"""The op table: every operation of the language and of its derivatives, one row each.

A formula is written once, over an algebra `m` that supplies the few functions it needs (`m.exp`,
`m.tanh`, ...): torch evaluates it, the IR builder expands it.
`csrc/ops.def` holds the same rows for the C++ engine; a test keeps the two together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

NORM_EPSILON = 1e-5
"""Added to the variance (layernorm) or mean square (rmsnorm) before the root, as torch does."""


class Reads(Enum):
    """What the derivative of a unary op needs besides the incoming gradient."""

    NOTHING = "nothing"
    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True)
class Unary:
    """An elementwise y = f(a) and its derivative, which reads `a`, `y` or neither."""

    name: str
    forward: Callable[[Any, Any], Any]
    derivative: Callable[[Any, Any, Any], Any]
    """(m, g, saved) -> g * f'(saved), saved being what `reads` says."""
    reads: Reads
    latex: str


@dataclass(frozen=True)
class Binary:
    """An elementwise infix op; its derivatives are in `derivative`."""

    name: str
    symbol: str
    precedence: int
    forward: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Rowwise:
    """An op over the H values of a row, given in terms of elementwise ops and `m.row_mean`."""

    name: str
    forward: Callable[[Any, Any], Any]
    latex: str


def _softsign_slope(m: Any, a: Any) -> Any:
    inverse = 1 / (1 + m.abs(a))
    return inverse * inverse


def _silu_derivative(m: Any, g: Any, a: Any) -> Any:
    gate = m.sigmoid(a)
    return g * gate * (1 + a * (1 - gate))


def _gelu_derivative(m: Any, g: Any, a: Any) -> Any:
    normal = m.exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (0.5 * (1 + m.erf(a * math.sqrt(0.5))) + a * normal)


def _layernorm(m: Any, a: Any) -> Any:
    centred = a - m.row_mean(a)
    return centred * m.rsqrt(m.row_mean(centred * centred) + NORM_EPSILON)


_UNARY = [
    Unary(
        "sigmoid",
        lambda m, a: m.sigmoid(a),
        lambda m, g, y: g * y * (1 - y),
        Reads.OUTPUT,
        r"\sigma({})",
    ),
    Unary(
        "tanh", lambda m, a: m.tanh(a), lambda m, g, y: g * (1 - y * y), Reads.OUTPUT, r"\tanh({})"
    ),
    Unary(
        "softsign",
        lambda m, a: m.softsign(a),
        lambda m, g, a: g * _softsign_slope(m, a),
        Reads.INPUT,
        r"\operatorname{{softsign}}({})",
    ),
    Unary(
        "softsign_scaled",
        lambda m, a: 0.5 + 0.5 * m.softsign(a),
        lambda m, g, a: 0.5 * g * _softsign_slope(m, a),
        Reads.INPUT,
        r"\operatorname{{softsign}}_s({})",
    ),
    Unary(
        "relu",
        lambda m, a: m.relu(a),
        lambda m, g, y: g * m.sign(y),
        Reads.OUTPUT,
        r"\operatorname{{relu}}({})",
    ),
    Unary(
        "silu",
        lambda m, a: a * m.sigmoid(a),
        _silu_derivative,
        Reads.INPUT,
        r"\operatorname{{silu}}({})",
    ),
    Unary(
        "gelu",
        lambda m, a: 0.5 * a * (1 + m.erf(a * math.sqrt(0.5))),
        _gelu_derivative,
        Reads.INPUT,
        r"\operatorname{{gelu}}({})",
    ),
    Unary("exp", lambda m, a: m.exp(a), lambda m, g, y: g * y, Reads.OUTPUT, r"\exp({})"),
    Unary("neg", lambda m, a: -a, lambda m, g, _: -g, Reads.NOTHING, "-{}"),
    Unary(
        "abs", lambda m, a: m.abs(a), lambda m, g, a: g * m.sign(a), Reads.INPUT, r"\left|{}\right|"
    ),
    Unary(
        "rsqrt",
        lambda m, a: m.rsqrt(a),
        lambda m, g, y: -0.5 * g * y * y * y,
        Reads.OUTPUT,
        r"({})^{{-1/2}}",
    ),
]

_BINARY = [
    Binary("add", "+", 1, lambda a, b: a + b),
    Binary("sub", "-", 1, lambda a, b: a - b),
    Binary("mul", "*", 2, lambda a, b: a * b),
    Binary("div", "/", 2, lambda a, b: a / b),
]

_ROWWISE = [
    Rowwise("layernorm", _layernorm, r"\operatorname{{LN}}({})"),
    Rowwise(
        "rmsnorm",
        lambda m, a: a * m.rsqrt(m.row_mean(a * a) + NORM_EPSILON),
        r"\operatorname{{RMS}}({})",
    ),
]

UNARY = {op.name: op for op in _UNARY}
BINARY = {op.name: op for op in _BINARY}
ROWWISE = {op.name: op for op in _ROWWISE}

FUNCTIONS = (UNARY.keys() | ROWWISE.keys()) - {"rsqrt"}
"""The one-argument functions of the language; `rsqrt` is a part of the row-wise ones only."""
