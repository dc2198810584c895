"""The bytecode of the C++ tile machine and its writer; csrc/program.h is the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _C


class Tensor(NamedTuple):
    """The caller's memory: a role and a name, like ("sequence", "x") or ("gradient", "g.bias").

    Roles: sequence, initial, final, parameter, gradient, and constant (its name is the number).
    """

    role: str
    name: str


class Place(NamedTuple):
    """Where a value lives: a buffer and its first column."""

    buffer: int
    column: int = 0


NOWHERE = Place(-1)


@dataclass(frozen=True)
class Bytecode:
    """What the tile machine is built from."""

    tensors: tuple[Tensor, ...]
    buffers: NDArray[np.int32]
    code: NDArray[np.int32]
    reverse: bool


class Writer:
    """Tensors, buffers and instructions, by name, as the numbers that C++ gave them."""

    def __init__(self) -> None:
        self.tensors: dict[Tensor, int] = {}
        self.buffers: list[tuple[int, ...]] = []
        self.code: list[tuple[int, ...]] = []

    def tensor(self, role: str, name: str) -> int:
        return self.tensors.setdefault(Tensor(role, name), len(self.tensors))

    def buffer(self, kind: str, width: int, rows: int = 0, a: int = -1, b: int = -1) -> int:
        self.buffers.append((_C.KINDS[kind], rows, width, a, b))
        return len(self.buffers) - 1

    def emit(
        self,
        section: str,
        op: str,
        dst: Place,
        a: Place = NOWHERE,
        b: Place = NOWHERE,
        c: Place = NOWHERE,
        *,
        width: int,
        extra: tuple[int, int] = (0, 0),
    ) -> None:
        code = (_C.SECTIONS[section], _C.OPCODES[op], *dst, *a, *b, *c, width, *extra)
        self.code.append(code)

    def bytecode(self, reverse: bool) -> Bytecode:
        buffers = np.array(self.buffers, np.int32)
        code = np.array(self.code, np.int32)
        return Bytecode(tuple(self.tensors), buffers, code, reverse)


def padded(width: int) -> int:
    """The width of a slot: rounded up to whole vectors of the widest machine."""
    lanes: int = _C.LANES
    return -(-width // lanes) * lanes
