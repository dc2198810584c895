"""The Triton engine: a cell's two Programs as kernels, and torch's products around them.

A kernel is made for (cell, I, H, dtype, precision) the first time it is needed. T and B are values
of the run: no new length or batch makes another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...ir import Cell
from ...lower import lower_backward, lower_forward, saved_sequences
from . import cache, products, resident
from .module import Storage, Tile, kernel_name
from .plan import Argument, Plan, divide

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


class Kernel:
    """A plan's kernel, and what it is launched with."""

    def __init__(self, plan: Plan, storage: Storage) -> None:
        self.plan = plan
        self.tile = Tile(rows=16, columns=0, warps=8 if plan.program.reverse else 4)
        name = kernel_name(plan.program)
        source = resident.write(plan, self.tile, storage)
        self.function: Any = getattr(cache.load(name, source), name)

    def run(self, tensors: dict[Argument, Tensor], x: Tensor, hidden: int) -> None:
        """Launches it on x's device and the current stream; `tensors` gets what it lacks."""
        steps, batch = x.shape[:2]
        for argument in self.plan.outputs():
            if argument not in tensors:
                tensors[argument] = x.new_empty(self._shape(argument, steps, batch, hidden))
        given = [tensors[a] for a in (*self.plan.inputs(), *self.plan.outputs())]
        grid = (-(-batch // self.tile.rows),)
        with torch.cuda.device_of(x):
            self.function[grid](*map(readable, given), steps, batch, num_warps=self.tile.warps)

    def _shape(self, argument: Argument, *sizes: int) -> tuple[int, ...]:
        steps, batch, hidden = sizes
        match argument.role:
            case "gates":
                return steps, batch, len(self.plan.gates) * hidden
            case "sources":
                return steps, batch, len(self.plan.sources) * hidden
            case "sequence":
                return sizes
        return batch, hidden


def readable(tensor: Tensor) -> Tensor:
    """The tensor, or a copy, contiguous and on a boundary of 16 bytes: one kernel serves all."""
    tensor = tensor.resolve_neg().contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


@lru_cache(maxsize=64)
def forward_kernel(
    cell: Cell, input_size: int, hidden_size: int, storage: Storage, save: bool
) -> Kernel:
    return Kernel(divide(lower_forward(cell, input_size, hidden_size), save), storage)


@lru_cache(maxsize=64)
def backward_kernel(
    cell: Cell, input_size: int, hidden_size: int, storage: Storage, input_gradient: bool
) -> Kernel:
    return Kernel(divide(lower_backward(cell, input_size, hidden_size, input_gradient)), storage)


def storage_of(x: Tensor) -> Storage:
    """The dtype of x; products of float32 as torch.set_float32_matmul_precision says."""
    exact = x.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return Storage(DTYPES[x.dtype], "ieee" if exact else "tf32")


def forward(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    save: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """x (T, B, I), states S of (B, H) -> output (T, B, H), finals S of (B, H), saved sequences.

    `saved_sequences` tells what is saved; nothing without `save`.
    """
    (steps, batch, input_size), hidden = x.shape, states[0].shape[-1]
    kept = saved_sequences(cell) if save else ()
    if not steps * batch:
        empty = x.new_empty(steps, batch, hidden)
        return empty, [state.clone() for state in states], [empty.clone() for _ in kept]
    names = [str(node.name) for node in cell.sources]
    kernel = forward_kernel(cell, input_size, hidden, storage_of(x), save)
    tensors = _before(kernel.plan, x, parameters)
    tensors |= {Argument("initial", n): s for n, s in zip(names[1:], states, strict=True)}
    kernel.run(tensors, x, hidden)
    output, *saved = (tensors[Argument("sequence", name)] for name in (names[1], *kept))
    return output, [tensors[Argument("final", name)] for name in names[1:]], saved


def backward(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    output: Tensor,
    saved: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    input_gradient: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of x, of the initial states and of the parameters.

    `gradients` are those of the output (T, B, H) and of the S finals (B, H); None is zero. The
    gradient of x is left unset unless asked for.
    """
    hidden, input_name = states[0].shape[-1], str(cell.sources[0].name)
    names = [str(node.name) for node in cell.states]
    seeds = [
        torch.zeros_like(like) if gradient is None else gradient
        for like, gradient in zip((output, *states), gradients, strict=True)
    ]
    if not output.numel():
        zeros = [torch.zeros_like(p) for p in parameters.values()]
        return torch.zeros_like(x), [seed.clone() for seed in seeds[1:]], zeros
    kernel = backward_kernel(cell, x.shape[-1], hidden, storage_of(x), input_gradient)
    tensors = _before(kernel.plan, x, parameters)
    sequences = dict(zip(saved_sequences(cell), saved, strict=True))
    sequences |= {names[0]: output, f"grad.{names[0]}": seeds[0]}
    tensors |= {Argument("sequence", name): s for name, s in sequences.items()}
    tensors |= {Argument("initial", n): s for n, s in zip(names, states, strict=True)}
    carries = zip(names, seeds[1:], strict=True)
    tensors |= {Argument("initial", f"grad.{name}"): seed for name, seed in carries}
    x_gradient = Argument("sequence", f"grad.{input_name}")
    written = x_gradient.name in dict(kernel.plan.program.writes)
    tensors[x_gradient] = (torch.empty_like if written else torch.zeros_like)(x)
    kernel.run(tensors, x, hidden)
    products.add_input_gradient(kernel.plan, tensors, parameters)
    parameter_gradients = products.parameter_gradients(kernel.plan, tensors, parameters)
    state_gradients = [tensors[Argument("final", f"grad.{name}")] for name in names]
    return tensors[x_gradient], state_gradients, list(parameter_gradients.values())


def _before(plan: Plan, x: Tensor, parameters: Mapping[str, Tensor]) -> dict[Argument, Tensor]:
    """What is there before the loop: x, parameters, and what products make of the two."""
    tensors = {Argument("parameter", name): p for name, p in parameters.items()}
    tensors[Argument("sequence", plan.program.input_name)] = x
    if plan.projected:
        tensors[Argument("projected")] = products.project(plan, x, parameters)
    if plan.blocks:
        tensors[Argument("weights")] = products.pack(plan, parameters)
    return tensors
