"""How a sequence lies before its caller, and before the operator: there and back.

the caller's                            the operator's
(T, B, I), (B, T, I), unbatched (T, I)  (T, B, I)
any of the first two, with lengths      (N, I), rows of step after step
PackedSequence                          (N, I)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from .errors import ShapeError
from .packed import Packing
from .states import shape_of


@dataclass(frozen=True)
class Layout:
    """A sequence as the operator takes it, and the ways back."""

    sequence: Tensor
    batch: int | None
    """Rows of the batch; None if it is unbatched."""
    restore: Callable[[Tensor], Any]
    """A sequence of the operator's in the caller's layout."""
    padded: Callable[[Tensor], Tensor]
    """The same as a tensor: of a PackedSequence the rows (N, .)."""
    batch_sizes: Tensor | None = None
    order: Tensor | None = None
    back: Tensor | None = None

    def sort(self, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The caller's states, (layers, B, .) or unbatched (layers, .), as (layers, B, .)."""
        if self.batch is None:
            return tuple(state.unsqueeze(1) for state in states)
        return _permuted(states, self.order)

    def unsort(self, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """States (layers, B, .) as the caller has them."""
        if self.batch is None:
            return tuple(state.squeeze(1) for state in states)
        return _permuted(states, self.back)


def layout_of(
    x: Tensor | PackedSequence, batch_first: bool, lengths: Tensor | Sequence[int] | None = None
) -> Layout:
    """The layout of x; ShapeError when the lengths do not fit it."""
    if isinstance(x, PackedSequence):
        if lengths is not None:
            raise ShapeError("lengths: expected None, since a PackedSequence has its own")
        return _packed(x, lambda rows: PackedSequence(rows, *x[1:]), lambda rows: rows)
    if x.dim() == 2:
        if lengths is not None:
            raise ShapeError(f"lengths: expected None for an unbatched x, which is {shape_of(x)}")
        return Layout(x.unsqueeze(1), None, _drop_batch, _drop_batch)
    time = 1 if batch_first else 0
    sequence = x.movedim(time, 0)
    if lengths is None:
        place = _to_axis(time)
        return Layout(sequence, sequence.shape[1], place, place)
    packing = Packing(sequence.shape[0], sequence.shape[1], lengths)
    place = _to_axis(time, packing.unpack)
    return _packed(packing.pack(sequence), place, place)


def _packed(
    x: PackedSequence, restore: Callable[[Tensor], Any], padded: Callable[[Tensor], Tensor]
) -> Layout:
    data, batch_sizes, order, back = x
    return Layout(data, int(batch_sizes[0]), restore, padded, batch_sizes, order, back)


def _to_axis(
    time: int, unpack: Callable[[Tensor], Tensor] = lambda sequence: sequence
) -> Callable[[Tensor], Tensor]:
    return lambda sequence: unpack(sequence).movedim(0, time)


def _drop_batch(sequence: Tensor) -> Tensor:
    return sequence.squeeze(1)


def _permuted(states: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    if order is None:
        return states
    return tuple(state.index_select(1, order) for state in states)
