"""One time step at a time on the CPU, for inference: the tile machine and little around it.

A `Stepper` holds a table of the addresses that the machine reads, and fills in what changes from
step to step. The machine itself notices parameters that are as they were, and packs them once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import is_
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..ir import Cell
from .cpu import check, describe, forward_kernel, rows

_Address: TypeAlias = tuple[int, tuple[int, ...]]

_steppers: WeakKeyDictionary[object, Stepper] = WeakKeyDictionary()


def step(
    cell: Cell,
    owner: object,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
) -> list[Tensor]:
    """x (B, I), states S of (1, B, H) -> new states S of (1, B, H).

    `owner` is what the parameters belong to; while it lives, its Stepper does.
    """
    kind = cell, x.shape[-1], states[0].shape[-1], x.dtype
    stepper = _steppers.get(owner)
    if stepper is None or stepper.kind != kind:
        stepper = _steppers[owner] = Stepper(*kind)
    return stepper(x, states, parameters)


class Stepper:
    """One layer's step: x (B, I) and S states (1, B, H) to S new states (1, B, H)."""

    def __init__(self, cell: Cell, input_size: int, hidden_size: int, dtype: torch.dtype) -> None:
        self.kind = cell, input_size, hidden_size, dtype
        self.kernel = forward_kernel(cell, input_size, hidden_size, dtype)
        names = [str(node.name) for node in cell.sources]
        place = {(key.role, key.name): at for at, key in enumerate(self.kernel.tensors)}
        described = [describe(self.kernel.constants.get(key)) for key in self.kernel.tensors]
        table = np.array(described, np.int64).reshape(-1, 3)
        reads = [("sequence", names[0]), *(("initial", name) for name in names[1:])]
        self.reads_at = [place.get(key, -1) for key in reads]
        self.finals_at = [place["final", name] for name in names[1:]]
        table[self.finals_at, 2] = hidden_size
        self.shapes = cell.parameters(input_size, hidden_size)
        self.parameters_at = [place.get(("parameter", name), -1) for name in self.shapes]
        # Replaced as one, so that threads that share the Stepper see either the old or the new.
        self.known: tuple[list[_Address], NDArray[np.int64]] = ([], table)

    def __call__(
        self, x: Tensor, states: Sequence[Tensor], named: Mapping[str, Tensor]
    ) -> list[Tensor]:
        parameters = named.values()
        found = [(parameter.data_ptr(), parameter.stride()) for parameter in parameters]
        known, table = self.known
        held = None
        if found == known:
            table = table.copy()
        else:
            check(x, named, self.shapes)
            table, held = self._describe(parameters, found)
        entry = table.reshape(-1).data
        read = [rows(tensor) for tensor in (x, *states)]
        for at, tensor in zip(self.reads_at, read, strict=True):
            if at >= 0:
                entry[3 * at], entry[3 * at + 2] = tensor.data_ptr(), tensor.stride()[-2]
        finals = [
            torch.empty_like(state, memory_format=torch.contiguous_format) for state in states
        ]
        for at, final in zip(self.finals_at, finals, strict=True):
            entry[3 * at] = final.data_ptr()
        self.kernel.machine.run(table, 1, x.shape[0], torch.get_num_threads())
        del held  # copies had to live until here
        return finals

    def _describe(
        self, parameters: Collection[Tensor], found: list[_Address]
    ) -> tuple[NDArray[np.int64], list[Tensor]]:
        """A table with the parameters filled in, and the copies that it may point to."""
        held = [rows(parameter) for parameter in parameters]
        table = self.known[1].copy()
        for at, parameter in zip(self.parameters_at, held, strict=True):
            if at >= 0:
                table[at] = describe(parameter)
        if all(map(is_, held, parameters)):
            self.known = found, table.copy()
        return table, held
