"""Sequences of unequal lengths, packed: the rows of step after step, the longest row first.

Step t has the first batch_sizes[t] rows, so that the work is that of the steps that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from .errors import ShapeError


class Packing:
    """Where the rows of a packed sequence lie in the padded one (T, B, .).

    `lengths` are B numbers from 1 to T; ShapeError for others.
    """

    def __init__(self, steps: int, batch: int, lengths: Tensor | Sequence[int]) -> None:
        self.steps, self.batch = steps, batch
        given = torch.as_tensor(lengths).cpu()
        _check_lengths(given, steps, batch)
        falling, self.order = given.sort(descending=True, stable=True)
        there = torch.arange(int(given.max())).unsqueeze(1) < falling
        time, row = there.nonzero(as_tuple=True)
        self.places = time * batch + self.order[row]
        self.batch_sizes = there.sum(1)

    def pack(self, x: Tensor) -> PackedSequence:
        """x (T, B, I) without what lies past each row's length."""
        rows = _apply(_Take, x.flatten(0, 1), self.places.to(x.device))
        order = self.order.to(x.device)
        return PackedSequence(rows, self.batch_sizes, order, order.argsort())

    def unpack(self, rows: Tensor) -> Tensor:
        """Packed rows (N, .) as (T, B, .), with zeros past each row's length."""
        places = self.places.to(rows.device)
        padded = _apply(_Put, rows, places, self.steps * self.batch)
        return padded.view(self.steps, self.batch, -1)


def _check_lengths(given: Tensor, steps: int, batch: int) -> None:
    whole = not given.is_floating_point() and given.dtype != torch.bool
    if given.shape != (batch,) or not whole or batch == 0:
        found = f"{tuple(given.shape)}, {given.dtype}"
        raise ShapeError(f"lengths: expected ({batch},), whole numbers, one a row; found {found}")
    if given.min() < 1 or given.max() > steps:
        found = f"{int(given.min())} to {int(given.max())}"
        raise ShapeError(f"lengths: expected 1 to T = {steps}; found {found}")


# Each the derivative of the other. Torch's own add up what falls on one place, one row at a time.


class _Take(torch.autograd.Function):
    """(M, .) -> the rows at `places` (N,), all different: (N, .)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, places: Tensor) -> Tensor:
        return x.index_select(0, places)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.count = len(inputs[0])
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return _apply(_Put, gradient, places, ctx.count), None


class _Put(torch.autograd.Function):
    """(N, .) -> (count, .), zeros but for the rows at `places` (N,), all different."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, places: Tensor, count: int) -> Tensor:
        return rows.new_zeros(count, *rows.shape[1:]).index_put_((places,), rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return _apply(_Take, gradient, places), None, None


def _apply(function: Any, *args: Any) -> Tensor:
    result: Tensor = function.apply(*args)
    return result
