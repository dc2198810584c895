"""One time step at a time on the CPU, for inference: the tile machine and little around it.

A `Stepper` is made for some tensors, and serves as long as their `facts` are the same: it holds
the table of addresses that the machine reads, and fills in those that change from step to step.
The machine itself notices weights that are as they were, and packs them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import _C
from ..ir import Cell
from .cpu import check, describe, forward_kernel, rows


def facts(
    cell: Cell, x: Tensor, states: Sequence[Tensor], layers: Sequence[Mapping[str, Tensor]]
) -> list[object]:
    """All that a Stepper depends on: everything but numbers, and where x and the states are."""
    moving = [x, *states]
    parameters = [tensor for layer in layers for tensor in layer.values()]
    tensors = moving + parameters
    return [
        cell,
        *map(Tensor.size, tensors),
        *map(Tensor.stride, tensors),
        *map(Tensor.is_neg, tensors),
        *[(tensor.dtype, tensor.device) for tensor in moving + parameters[:1]],
        *map(Tensor.data_ptr, parameters),
    ]


class _Layer(NamedTuple):
    """One layer's run: the table's entries `at` are for x, output, states and finals."""

    machine: _C.ScanProgram
    table: NDArray[np.int64]
    at: list[tuple[int, int]]
    offsets: list[int]  # from each of those to the layer's part, in bytes


class Stepper:
    """A step of a stack of layers: x (B, I), S states (layers, B, H) to output (B, H), S states.

    All may lack the axis B. It checks the parameters; x and the states have been checked.
    """

    def __init__(
        self,
        cell: Cell,
        x: Tensor,
        states: Sequence[Tensor],
        layers: Sequence[Mapping[str, Tensor]],
    ) -> None:
        self.facts = facts(cell, x, states, layers)
        self.hidden_size = states[0].shape[-1]
        self.output_shape = (*x.shape[:-1], self.hidden_size)
        if x.dim() == 1:
            x, states = x.unsqueeze(0), [state.unsqueeze(1) for state in states]
        self.batch = x.shape[0]
        self.copies: list[Tensor] = []  # of parameters that the machine can't read in place
        self.layers: list[_Layer] = []
        for parameters in layers:
            self.layers.append(self._layer(cell, x, states, parameters))
            x = x.new_empty(self.batch, self.hidden_size)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # the copy of a module has its tensors elsewhere

    def __call__(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        finals = [_room(state) for state in states]
        kept = [tensor.data_ptr() for tensor in (*states, *finals)]
        for machine, table, at, offsets in self.layers:
            below, x = x, x.new_empty(self.output_shape)
            moving = below.data_ptr(), x.data_ptr(), *kept
            table = table.copy()  # other threads may be here
            entries = table.data
            for entry, address, offset in zip(at, moving, offsets, strict=True):
                entries[entry] = address + offset
            machine.run(table[:-1], 1, self.batch, torch.get_num_threads())
        return x, finals

    def _layer(
        self, cell: Cell, x: Tensor, states: Sequence[Tensor], parameters: Mapping[str, Tensor]
    ) -> _Layer:
        sizes, index = (x.shape[-1], self.hidden_size), len(self.layers)
        check(x, parameters, cell.parameters(*sizes))
        kernel = forward_kernel(cell, *sizes, x.dtype)
        place = {(key.role, key.name): at for at, key in enumerate(kernel.tensors)}
        table = np.zeros((len(place) + 1, 3), np.int64)
        spare = len(place)  # the last row is for what this cell's machine doesn't read
        for at, key in enumerate(kernel.tensors):
            table[at] = describe(kernel.constants.get(key))
        for name, parameter in parameters.items():
            table[place.get(("parameter", name), spare)] = describe(self._readable(parameter))
        whole = [x, x.new_empty(self.batch, self.hidden_size), *states, *map(_room, states)]
        parts = [each[index] if each.dim() == 3 else each for each in whole]
        named, *carried = [str(node.name) for node in cell.sources]
        keys = [("sequence", named), ("sequence", carried[0])]
        keys += [(role, name) for role in ("initial", "final") for name in carried]
        rows_at = [place.get(key, spare) for key in keys]
        for at, part in zip(rows_at, parts, strict=True):
            table[at] = describe(part)
        offsets = [p.data_ptr() - w.data_ptr() for p, w in zip(parts, whole, strict=True)]
        return _Layer(kernel.machine, table, [(at, 0) for at in rows_at], offsets)

    def _readable(self, parameter: Tensor) -> Tensor:
        readable = rows(parameter)
        if readable is not parameter:
            self.copies.append(readable)
        return readable


def _room(state: Tensor) -> Tensor:
    return torch.empty_like(state, memory_format=torch.contiguous_format)
