"""Formulas as text: the rows of `ops` written out as Triton, with no more brackets than needed.

There is nothing to add here for a new operation, unless its formula calls a function that neither
Triton nor `functions` has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ops import BINARY, UNARY
from ...text import format_number

_ATOM = 1 + max(op.precedence for op in BINARY.values())
FUNCTIONS = frozenset({"sigmoid", "tanh", "softsign", "relu", "sign"})
"""The functions of `ops` that are in `functions`; any other is Triton's own."""


@dataclass(frozen=True)
class Term:
    """A piece of source, and how tightly its outermost operator binds."""

    text: str
    binding: int = _ATOM

    def __add__(self, other: Term | float) -> Term:
        return infix("add", self, other)

    def __radd__(self, other: float) -> Term:
        return infix("add", other, self)

    def __sub__(self, other: Term | float) -> Term:
        return infix("sub", self, other)

    def __rsub__(self, other: float) -> Term:
        return infix("sub", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return infix("mul", self, other)

    def __rmul__(self, other: float) -> Term:
        return infix("mul", other, self)

    def __truediv__(self, other: Term | float) -> Term:
        return infix("div", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return infix("div", other, self)

    def __neg__(self) -> Term:
        return Term(f"-{_bracketed(self, _ATOM)}", BINARY["mul"].precedence)


def infix(op: str, left: Term | float, right: Term | float) -> Term:
    """The two with the op's sign between them; a + (b + c) keeps its brackets, and its rounding."""
    row = BINARY[op]
    texts = _bracketed(number(left), row.precedence), _bracketed(number(right), row.precedence + 1)
    return Term(f" {row.symbol} ".join(texts), row.precedence)


def number(value: Term | float) -> Term:
    """A number as source."""
    if isinstance(value, Term):
        return value
    return Term(format_number(value), _ATOM if value >= 0 else BINARY["mul"].precedence)


def _bracketed(term: Term, binding: int) -> str:
    return term.text if term.binding >= binding else f"({term.text})"


class _Algebra:
    """The functions that formulas are written over, as calls."""

    def __getattr__(self, name: str) -> Callable[[Term | float], Term]:
        call = name if name in FUNCTIONS else f"tl.{name}"
        return lambda a: Term(f"{call}({number(a).text})")


_ALGEBRA = _Algebra()


def apply(op: str, args: Sequence[Term]) -> Term:
    """An elementwise op of some terms: written out, or a call where it reads one of them twice."""
    if op == "muladd":
        return args[0] * args[1] + args[2]
    if op in BINARY:
        return infix(op, *args)
    if is_helper(op):
        return Term(f"{op}({', '.join(arg.text for arg in args)})")
    return _formula(op, args)


def is_helper(op: str) -> bool:
    """Whether kernels call the op as a function of their own, see `helper`."""
    if op in BINARY or op.removesuffix("_grad") not in UNARY:
        return False
    once = Term("@")
    return _formula(op, [once] * _arity(op)).text.count("@") > _arity(op)


def helper(op: str) -> list[str]:
    """The op as a function, its lines: def silu(a): return a * sigmoid(a)."""
    names = _parameters(op)
    formula = _formula(op, [Term(name) for name in names])
    return ["@triton.jit", f"def {op}({', '.join(names)}):", f"    return {formula.text}"]


def _formula(op: str, args: Sequence[Term]) -> Term:
    unary = UNARY[op.removesuffix("_grad")]
    result = (
        unary.derivative(_ALGEBRA, *args)
        if op.endswith("_grad")
        else unary.forward(_ALGEBRA, *args)
    )
    assert isinstance(result, Term)
    return result


def _arity(op: str) -> int:
    return len(_parameters(op))


def _parameters(op: str) -> tuple[str, ...]:
    if not op.endswith("_grad"):
        return ("a",)
    return ("g", "y" if UNARY[op.removesuffix("_grad")].reads.value == "output" else "a")
