"""One time step at a time on the CPU, for inference: the tile machine and little around it.

A `Stepper` holds a table of the addresses that the machine reads, and fills in what changes from
step to step. The machine itself notices parameters that are as they were, and packs them once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import is_
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ..ir import Cell
from .cpu import describe, forward_kernel, rows

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
    sizes = x.shape[-1], states[0].shape[-1], x.dtype
    stepper = _steppers.get(owner)
    if stepper is None or stepper.sizes != sizes:
        stepper = _steppers[owner] = Stepper(cell, *sizes)
    return stepper(x, states, parameters.values())


class Stepper:
    """One layer's step: x (B, I) and S states (1, B, H) to S new states (1, B, H)."""

    def __init__(self, cell: Cell, input_size: int, hidden_size: int, dtype: torch.dtype) -> None:
        self.sizes = input_size, hidden_size, dtype
        self.kernel = forward_kernel(cell, input_size, hidden_size, dtype)
        names = [str(node.name) for node in cell.sources]
        place = {(key.role, key.name): at for at, key in enumerate(self.kernel.tensors)}
        described = [describe(self.kernel.constants.get(key)) for key in self.kernel.tensors]
        self.table = np.array(described, np.int64).reshape(-1, 3)
        reads = [("sequence", names[0]), *(("initial", name) for name in names[1:])]
        self.reads_at = [place.get(key, -1) for key in reads]
        self.finals_at = [place["final", name] for name in names[1:]]
        self.table[self.finals_at, 2] = hidden_size
        parameters = cell.parameters(input_size, hidden_size)
        self.parameters_at = [place.get(("parameter", name), -1) for name in parameters]
        self.known: list[tuple[int, tuple[int, ...]]] = []

    def __call__(
        self, x: Tensor, states: Sequence[Tensor], parameters: Collection[Tensor]
    ) -> list[Tensor]:
        found = [(parameter.data_ptr(), parameter.stride()) for parameter in parameters]
        held = None if found == self.known else self._describe(parameters, found)
        table = self.table.copy()
        entry = table.reshape(-1).data
        read = [rows(tensor) for tensor in (x, *states)]
        for at, tensor in zip(self.reads_at, read, strict=True):
            if at >= 0:
                entry[3 * at], entry[3 * at + 2] = tensor.data_ptr(), tensor.stride(-2)
        finals = [torch.empty(state.shape, dtype=state.dtype) for state in states]
        for at, final in zip(self.finals_at, finals, strict=True):
            entry[3 * at] = final.data_ptr()
        self.kernel.machine.run(table, 1, x.shape[0], torch.get_num_threads())
        del held  # copies had to live until here
        return finals

    def _describe(
        self, parameters: Iterable[Tensor], found: list[tuple[int, tuple[int, ...]]]
    ) -> list[Tensor]:
        """Fills the parameters in; those that had to be copied will have to be again."""
        copies = [rows(parameter) for parameter in parameters]
        table = self.table.copy()
        for at, parameter in zip(self.parameters_at, copies, strict=True):
            if at >= 0:
                table[at] = describe(parameter)
        in_place = all(map(is_, copies, parameters))
        self.table, self.known = table, found if in_place else []
        return copies
