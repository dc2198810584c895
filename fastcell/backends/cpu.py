"""The CPU engine: a cell's two Programs on the C++ tile machine.

Programs are built for (cell, I, H, dtype) the first time they are needed, in milliseconds; no
compiler runs. Tensors are read and written in place, whatever their strides over time and batch;
only one whose last axis isn't contiguous is copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import _C
from ..errors import ShapeError
from ..ir import Cell
from ..lower import lower_backward, lower_forward, saved_sequences
from ..program import Program
from .bytecode import Bytecode
from .encode import encode

DTYPES = {torch.float32: "float32", torch.float64: "float64"}


class Time(NamedTuple):
    """The steps of a run, from the first to the last, or `reverse`; the rows that each of them has.

    `batch_sizes` (T,), int64 and falling, are the rows of each step, in sequences (N, .); without
    it every step has the whole batch, in sequences (T, B, .).
    """

    steps: int
    batch: int
    batch_sizes: Tensor | None
    reverse: bool

    @classmethod
    def of(cls, x: Tensor, batch: int, batch_sizes: Tensor | None, reverse: bool) -> Time:
        """The steps of x (T, B, I) or (N, I); ShapeError if they do not fit."""
        if batch_sizes is None:
            return cls(x.shape[0], batch, None, reverse)
        if batch_sizes.dtype != torch.int64 or batch_sizes.dim() != 1 or not batch_sizes.is_cpu:
            found = f"{tuple(batch_sizes.shape)}, {batch_sizes.dtype} on {batch_sizes.device}"
            raise ShapeError(f"batch_sizes: expected (T,), torch.int64 on cpu; found {found}")
        if x.dim() != 2 or int(batch_sizes.sum()) != x.shape[0]:
            expected = f"expected (N, I) with N = {int(batch_sizes.sum())}, the sum of batch_sizes"
            raise ShapeError(f"x: {expected}; found {tuple(x.shape)}")
        return cls(len(batch_sizes), batch, batch_sizes.contiguous(), reverse)


class Kernel:
    """A Program on the tile machine, with the caller's tensors passed by role and name."""

    def __init__(self, program: Program, dtype: torch.dtype) -> None:
        bytecode = encode(program)
        self.tensors = bytecode.tensors
        self.constants = _constants(bytecode, dtype)
        self.machine = _C.ScanProgram(
            DTYPES[dtype], len(self.tensors), bytecode.buffers, bytecode.code, program.reverse
        )

    def run(self, tensors: Mapping[tuple[str, str], Tensor], time: Time) -> None:
        """Runs the Program; a tensor left out is read as zeros, and nothing is written to it."""
        described = [describe(self.constants.get(key, tensors.get(key))) for key in self.tensors]
        table = np.array(described, np.int64).reshape(-1, 3)
        rows = None if time.batch_sizes is None else time.batch_sizes.numpy()
        threads = torch.get_num_threads()
        self.machine.run(table, time.steps, time.batch, threads, time.reverse, rows)


def _constants(bytecode: Bytecode, dtype: torch.dtype) -> dict[tuple[str, str], Tensor]:
    keys = [key for key in bytecode.tensors if key.role == "constant"]
    return {key: torch.tensor([[float(key.name)]], dtype=dtype) for key in keys}


def describe(tensor: Tensor | None) -> tuple[int, int, int]:
    """Address and strides, over time and over rows, in elements; zeros if absent."""
    if tensor is None:
        return 0, 0, 0
    strides = (0, 0, *tensor.stride())[-3:] if tensor.dim() else (0, 0)
    return tensor.data_ptr(), strides[0], strides[1]


@lru_cache(maxsize=64)
def forward_kernel(
    cell: Cell, input_size: int, hidden_size: int, dtype: torch.dtype, all_states: bool = False
) -> Kernel:
    return Kernel(lower_forward(cell, input_size, hidden_size, all_states), dtype)


@lru_cache(maxsize=64)
def backward_kernel(
    cell: Cell,
    input_size: int,
    hidden_size: int,
    dtype: torch.dtype,
    input_gradient: bool,
    all_states: bool,
) -> Kernel:
    program = lower_backward(cell, input_size, hidden_size, input_gradient, all_states)
    return Kernel(program, dtype)


def check(
    x: Tensor,
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    otherwise: tuple[int, ...] = (),
) -> None:
    """Raises ShapeError unless each tensor has its shape, and the dtype and device of x."""
    for name, tensor in tensors.items():
        shape = shapes.get(name, otherwise)
        if tensor.shape != shape or tensor.dtype != x.dtype or tensor.device != x.device:
            found = f"{tuple(tensor.shape)}, {tensor.dtype} on {tensor.device}"
            expected = f"{tuple(shape)}, {x.dtype} on {x.device} as x is"
            raise ShapeError(f"{name}: expected {expected}; found {found}")


def rows(tensor: Tensor) -> Tensor:
    """The tensor itself if the machine can read it, with its last axis contiguous; else a copy."""
    tensor = tensor.resolve_neg()
    strides = tensor.stride()
    if not strides or strides[-1] == 1 or tensor.numel() == 0:
        return tensor.contiguous() if tensor.numel() == 0 else tensor
    compact = tensor
    for axis in range(tensor.dim() - 1):
        if tensor.stride(axis) == 0:  # repeated, as the gradient of a sum is: copy it once
            compact = compact.narrow(axis, 0, 1)
    return compact.contiguous().expand(tensor.shape)


def forward(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    save: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """x (T, B, I), states S of (B, H) -> output (T, B, H), finals S of (B, H), saved sequences.

    With `all_states` the output is (T, B, S * H). `saved_sequences` tells what is saved; nothing
    without `save`. `Time` tells of `batch_sizes` and `reverse`.
    """
    input_size, (batch, hidden_size) = x.shape[-1], states[0].shape
    names = [str(node.name) for node in cell.sources]
    shown = names[1:] if all_states else names[1:2]
    output = x.new_empty(*x.shape[:-1], len(shown) * hidden_size)
    finals = [x.new_empty(batch, hidden_size) for _ in states]
    kept = saved_sequences(cell, all_states) if save else ()
    saved = [x.new_empty(*x.shape[:-1], hidden_size) for _ in kept]
    sequences = [rows(x), *output.split(hidden_size, dim=-1), *saved]
    named = zip((names[0], *shown, *kept), sequences, strict=True)
    tensors = {("sequence", name): sequence for name, sequence in named}
    for name, initial, final in zip(names[1:], states, finals, strict=True):
        tensors[("initial", name)] = rows(initial)
        tensors[("final", name)] = final
    tensors |= _parameters(parameters)
    time = Time.of(x, batch, batch_sizes, reverse)
    forward_kernel(cell, input_size, hidden_size, x.dtype, all_states).run(tensors, time)
    return output, finals, saved


def backward(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    output: Tensor,
    saved: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    input_gradient: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of x, of the initial states and of the parameters.

    `gradients` are those of the output, (T, B, H) or with `all_states` (T, B, S * H), and of the S
    finals (B, H); None is zero. The gradient of x is left unset unless asked for.
    """
    input_size, (batch, hidden_size) = x.shape[-1], states[0].shape
    names = [str(node.name) for node in cell.sources]
    shown = names[1:] if all_states else names[1:2]
    sizes = (input_size, hidden_size)
    kernel = backward_kernel(cell, *sizes, x.dtype, input_gradient, all_states)
    written = ("sequence", f"grad.{names[0]}") in kernel.tensors
    unread = input_gradient and not written
    x_gradient = (x.new_zeros if unread else x.new_empty)(x.shape)
    state_gradients = [state.new_empty(state.shape) for state in states]
    sequences = [x, *output.split(hidden_size, dim=-1), *saved]
    named = zip((names[0], *shown, *saved_sequences(cell, all_states)), sequences, strict=True)
    tensors = {("sequence", name): rows(sequence) for name, sequence in named}
    if written:
        tensors[("sequence", f"grad.{names[0]}")] = x_gradient
    if gradients[0] is not None:
        parts = zip(shown, gradients[0].split(hidden_size, dim=-1), strict=True)
        tensors |= {("sequence", f"grad.{name}"): rows(part) for name, part in parts}
    for name, state, final, gradient in zip(
        names[1:], states, gradients[1:], state_gradients, strict=True
    ):
        tensors[("initial", name)] = rows(state)
        tensors[("final", f"grad.{name}")] = gradient
        if final is not None:
            tensors[("initial", f"grad.{name}")] = rows(final)
    tensors |= _parameters(parameters)
    parameter_gradients = {name: _gradient(p, hidden_size) for name, p in parameters.items()}
    tensors |= {("gradient", name): g for name, g in parameter_gradients.items()}
    kernel.run(tensors, Time.of(x, batch, batch_sizes, reverse))
    grads = [
        gradient.sum() if parameters[name].dim() == 0 else gradient
        for name, gradient in parameter_gradients.items()
    ]
    return x_gradient, state_gradients, grads


def _parameters(parameters: Mapping[str, Tensor]) -> dict[tuple[str, str], Tensor]:
    return {("parameter", name): rows(parameter) for name, parameter in parameters.items()}


def _gradient(parameter: Tensor, hidden_size: int) -> Tensor:
    """Room for a gradient; that of a scalar comes as H summands."""
    if parameter.dim() == 0:
        return parameter.new_zeros(hidden_size)
    return torch.zeros_like(parameter, memory_format=torch.contiguous_format)
