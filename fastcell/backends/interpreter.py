"""A Program run by plain torch, node by node: what every kernel is compared with.

It shares the lowering with the kernels and the arithmetic with torch, so it tells a fault of the
one from a fault of the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from ..node import Node
from ..ops import BINARY, UNARY
from ..program import Program
from .eager import TorchAlgebra

_ALGEBRA = TorchAlgebra()


def _elementwise(op: str, args: list[Tensor]) -> Any:
    if op in BINARY:
        return BINARY[op].forward(*args)
    if op.endswith("_grad"):
        return UNARY[op.removesuffix("_grad")].derivative(_ALGEBRA, *args)
    return UNARY[op].forward(_ALGEBRA, args[0])


@dataclass
class Outcome:
    """What a Program leaves behind: sequences (T, B, .), last carries (B, H), gradients."""

    writes: dict[str, Tensor] = field(default_factory=dict)
    carries: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)


def run(
    program: Program,
    sequences: Mapping[str, Tensor],
    initial: Mapping[str, Tensor],
    parameters: Mapping[str, Tensor],
) -> Outcome:
    """Runs a Program; `initial` holds each carry's first value and what stands before row 0."""
    machine = _Machine(program, sequences, initial, parameters)
    steps = range(next(iter(sequences.values())).shape[0])
    for t in reversed(steps) if program.reverse else steps:
        machine.step(t)
    return machine.outcome()


class _Machine:
    def __init__(
        self,
        program: Program,
        sequences: Mapping[str, Tensor],
        initial: Mapping[str, Tensor],
        parameters: Mapping[str, Tensor],
    ) -> None:
        self.program, self.parameters = program, parameters
        self.sequences, self.initial = sequences, initial
        self.carries = {name: initial[name] for name, _ in program.carries}
        self.rows: dict[str, dict[int, Tensor]] = {name: {} for name, _ in program.writes}
        self.sums: dict[str, Tensor] = {}

    def step(self, t: int) -> None:
        values: list[Tensor] = []
        for node in self.program.nodes:
            values.append(self._value(node, [values[arg] for arg in node.args], t))
        batch = self.carries[self.program.carries[0][0]]
        for name, index in self.program.writes:
            self.rows[name][t] = values[index].expand(len(batch), -1)
        for item in self.program.sums:
            gradient = values[item.node].expand_as(batch)
            if item.source is None:
                self._add(item.param, gradient.sum(0))
            else:
                self._add(
                    f"{item.param}[{item.position}]", gradient.T @ self._rows(values[item.source])
                )
        self.carries = {
            name: values[index].expand_as(batch) for name, index in self.program.carries
        }

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value

    def _value(self, node: Node, args: list[Tensor], t: int) -> Tensor:
        match node.op:
            case "read":
                row, name = t + int(node.value or 0), str(node.param)
                return self.sequences[name][row] if row >= 0 else self.initial[name]
            case "carry":
                return self.carries[str(node.param)]
            case "const":
                like = next(iter(self.sequences.values()))
                return torch.tensor([node.value], dtype=like.dtype)
            case "scalar" | "vector":
                return self.parameters[str(node.param)].reshape(-1)
            case "linear":
                rows = [self._rows(arg) for arg in args]
                product = torch.cat(rows, -1) @ self.parameters[f"{node.param}.weight"].T
                return product + self.parameters[f"{node.param}.bias"] if node.bias else product
            case "pullback":
                return self._pullback(node, args)
            case "muladd":
                return args[0] * args[1] + args[2]
            case "row_mean":
                return args[0].mean(-1, keepdim=True).expand_as(args[0])
        return cast(Tensor, _elementwise(node.op, args))

    def _rows(self, value: Tensor) -> Tensor:
        """A vector, repeated for each row of the batch; anything else as it is."""
        batch = len(next(iter(self.carries.values())))
        return value.expand(batch, -1) if value.dim() == 1 else value

    def _pullback(self, node: Node, args: list[Tensor]) -> Tensor:
        total = args[-1] if node.bias else torch.zeros(())
        for gradient, (linear, position) in zip(args, node.blocks, strict=False):
            total = total + gradient @ self._block(linear, position)
        return total

    def _block(self, linear: str, position: int) -> Tensor:
        """The columns of a weight that belong to one source."""
        weight = self.parameters[f"{linear}.weight"]
        return torch.split(weight, list(self.program.widths[linear]), -1)[position]

    def outcome(self) -> Outcome:
        writes = {
            name: torch.stack([rows[t] for t in sorted(rows)]) for name, rows in self.rows.items()
        }
        return Outcome(writes, self.carries, self.sums)
