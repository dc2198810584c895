"""Sequences of unequal lengths, packed: the rows of step after step, the longest row first.

Step t has the first batch_sizes[t] rows, so that the work is that of the steps that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .errors import ShapeError

RunPacked: TypeAlias = Callable[
    [Tensor, tuple[Tensor, ...], Tensor], tuple[Tensor, tuple[Tensor, ...]]
]
"""(x (N, I), states S of (layers, B, .), batch_sizes) -> output (N, .), finals as states."""


def pack(x: Tensor, lengths: Tensor | Sequence[int]) -> PackedSequence:
    """x (T, B, I) without what lies past each row's length; lengths B of 1 to T.

    Raises ShapeError for other lengths.
    """
    given = torch.as_tensor(lengths).cpu()
    steps, batch = x.shape[:2]
    if given.shape != (batch,) or given.is_floating_point() or given.dtype == torch.bool:
        found = f"{tuple(given.shape)}, {given.dtype}"
        raise ShapeError(f"lengths: expected ({batch},), whole numbers, one a row; found {found}")
    if batch and not (given.min() >= 1 and given.max() <= steps):
        found = f"{int(given.min())} to {int(given.max())}"
        raise ShapeError(f"lengths: expected 1 to T = {steps}; found {found}")
    return pack_padded_sequence(x, given.long(), enforce_sorted=False)


def unpack(packed: PackedSequence, steps: int) -> Tensor:
    """(T, B, .), with zeros past each row's length."""
    return pad_packed_sequence(packed, total_length=steps)[0]


def run_packed(
    run: RunPacked, packed: PackedSequence, states: tuple[Tensor, ...]
) -> tuple[PackedSequence, tuple[Tensor, ...]]:
    """Runs a packed sequence; the states (layers, B, .), in and out, are in the caller's order."""
    data, batch_sizes, order, back = packed
    if order is not None:
        states = tuple(state.index_select(1, order) for state in states)
    output, finals = run(data, states, batch_sizes)
    if back is not None:
        finals = tuple(final.index_select(1, back) for final in finals)
    return PackedSequence(output, batch_sizes, order, back), finals
