"""The state of a recurrent module as its caller has it: one tensor, or a tuple of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .errors import ShapeError

State: TypeAlias = Tensor | tuple[Tensor, ...]
"""One tensor (layers * directions, B, H) per state of the cell; bare when the cell has one."""


def initial_states(
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    axes: str,
    x: Tensor,
    state: State | None,
) -> tuple[Tensor, ...]:
    """The given state as one tensor for each name, of the shape beside it; zeros if None.

    `axes` says what the shapes are, as in "(layers * directions, B, H)". Raises ShapeError for
    other shapes, or another dtype or device than those of x.
    """
    if state is None:
        return tuple(x.new_zeros(shape) for shape in shapes)
    states = as_tuple(state, names)
    for name, tensor, shape in zip(names, states, shapes, strict=True):
        if tensor.shape != shape or tensor.dtype != x.dtype or tensor.device != x.device:
            _check(f"state '{name}'", tensor, shape, axes, x)
    return states


def as_tuple(state: State, names: Sequence[str]) -> tuple[Tensor, ...]:
    """The given state as one tensor for each name; ShapeError if it is not that."""
    states = (state,) if isinstance(state, Tensor) else state
    fits = isinstance(states, tuple | list) and len(states) == len(names)
    if fits and all(isinstance(each, Tensor) for each in states):
        return tuple(states)
    expected = f"a tuple ({', '.join(names)})" if len(names) > 1 else "a tensor"
    found = type(state).__name__
    if isinstance(state, tuple | list):
        found += f" ({', '.join(type(each).__name__ for each in state)})"
    raise ShapeError(f"state: expected {expected}; found {found}")


def bare_if_one(states: Sequence[Tensor]) -> State:
    """The states as a caller has them."""
    return tuple(states) if len(states) > 1 else states[0]


def check_dtype(name: str, tensor: Tensor, expected: torch.dtype) -> None:
    """Raises ShapeError for another dtype than expected; autocast mixes them on purpose."""
    if tensor.dtype != expected and not _is_autocast(tensor.device.type):
        mend = f"convert it, or the module, with .to({tensor.dtype})"
        raise ShapeError(f"{name}: expected {expected}, found {tensor.dtype}: {mend}")


def shape_of(value: object) -> str:
    """A tensor's shape, or what it is instead of a tensor."""
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def _check(name: str, tensor: Tensor, shape: tuple[int, ...], axes: str, x: Tensor) -> None:
    """Raises ShapeError unless the tensor has that shape, and the dtype and device of x."""
    if tensor.shape != shape:
        found = shape_of(tensor)
        raise ShapeError(f"{name}: expected {shape}, which is {axes}; found {found}")
    check_dtype(name, tensor, x.dtype)
    if tensor.device != x.device:
        mend = f"move it with .to('{x.device}')"
        raise ShapeError(f"{name}: expected {x.device}, as x is; found {tensor.device}: {mend}")


def _is_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
