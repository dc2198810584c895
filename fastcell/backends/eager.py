"""The reference: a cell's equations as torch operations in a Python loop over time.

Its derivative is torch's autograd. Every other backend is measured against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..ir import Cell
from ..node import Node
from ..ops import BINARY, ROWWISE, UNARY


class TorchAlgebra:
    """The functions that the formulas of `ops` are written over, on tensors; most are torch's."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(torch, name)
        return function

    @staticmethod
    def row_mean(a: Tensor) -> Tensor:
        """The mean over the last axis, kept as an axis of one."""
        return a.mean(-1, keepdim=True)

    @staticmethod
    def softsign(a: Tensor) -> Tensor:
        """a / (1 + |a|), which is inf / inf at infinity: there it is the sign, with slope 0."""
        largest = torch.finfo(a.dtype).max
        a = a.clamp(-largest, largest)
        return a / (1 + a.abs())


_ALGEBRA = TorchAlgebra()
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    name: op.forward for name, op in (UNARY | ROWWISE).items()
}
_INFIX: dict[str, Callable[..., Tensor]] = {name: op.forward for name, op in BINARY.items()}


def scan(
    cell: Cell,
    x: Tensor,
    states: tuple[Tensor, ...],
    parameters: Mapping[str, Tensor],
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
    all_states: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Runs the cell over a sequence; x (T, B, I), states S of (B, H), T may be 0.

    Returns the first state at every step (T, B, H), and every state after the last, S of (B, H).
    `parameters` has the names and shapes of `cell.parameters(I, H)`. With `reverse` the run goes
    from the last step to the first. With `batch_sizes` (T,) step t has that many rows, the first
    ones; x is then the rows of step after step, (N, I), and the output (N, H). With `all_states`
    the output has every state, side by side, (T, B, S * H).
    """
    if batch_sizes is not None:
        moments = x.split(batch_sizes.tolist())
        return _packed(cell, moments, states, parameters, reverse, all_states)
    histories = trajectories(cell, x.flip(0) if reverse else x, states, parameters)
    output = torch.cat(histories if all_states else histories[:1], dim=-1)[1:]
    return output.flip(0) if reverse else output, tuple(history[-1] for history in histories)


def _packed(
    cell: Cell,
    moments: Sequence[Tensor],
    states: tuple[Tensor, ...],
    parameters: Mapping[str, Tensor],
    reverse: bool,
    all_states: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A run over steps of fewer and fewer rows: a row's states stay as they are where it is not."""
    outputs = []
    for x in reversed(moments) if reverse else moments:
        live = len(x)
        new = step(cell, x, tuple(state[:live] for state in states), parameters)
        outputs.append(torch.cat(new, dim=-1) if all_states else new[0])
        states = tuple(torch.cat([n, s[live:]]) for n, s in zip(new, states, strict=True))
    return torch.cat(outputs[::-1] if reverse else outputs), states


def trajectories(
    cell: Cell, x: Tensor, states: tuple[Tensor, ...], parameters: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """Every state at every moment, the initial one first: S of (T + 1, B, H)."""
    history = [states]
    for x_now in x:
        history.append(step(cell, x_now, history[-1], parameters))
    return tuple(torch.stack(moments) for moments in zip(*history, strict=True))


def step(
    cell: Cell, x: Tensor, states: tuple[Tensor, ...], parameters: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """One time step: x (B, I) and states S of (B, H) to the new states, S of (B, H)."""
    values = [x, *states]
    for node in cell.nodes[len(values) :]:
        arguments = [values[arg] for arg in node.args]
        values.append(_evaluate(node, arguments, parameters, like=states[0]))
    return tuple(values[output] for output in cell.outputs)


def _evaluate(
    node: Node, arguments: list[Tensor], parameters: Mapping[str, Tensor], like: Tensor
) -> Tensor:
    """The node's value: (B, H) as `like` is, or a single number () for const and scalar."""
    if node.op in _FUNCTIONS:
        return _FUNCTIONS[node.op](_ALGEBRA, *arguments)
    if node.op in _INFIX:
        return _INFIX[node.op](*arguments)
    if node.op == "const":
        assert node.value is not None
        return like.new_full((), node.value)
    if node.op == "linear":
        weight, bias = parameters[f"{node.param}.weight"], parameters.get(f"{node.param}.bias")
        return linear(torch.cat(arguments, dim=-1), weight, bias)
    parameter = parameters[str(node.param)]
    return parameter.expand_as(like) if node.op == "vector" else parameter
