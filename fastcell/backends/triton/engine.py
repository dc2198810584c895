"""The Triton engine: a cell's two Programs as kernels, and torch's products around them.

A kernel is made for (cell, I, H, dtype, precision) the first time it is needed. T and B are values
of the run: no new length or batch makes another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ...errors import BackendError
from ...ir import Cell
from ...lower import lower_backward, lower_forward, saved_sequences
from . import products
from .cost import DEVICES, Device, choose, find_device
from .launch import Kernel, build
from .module import Storage
from .plan import Argument, Plan, divide

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


@lru_cache(maxsize=64)
def forward_kernel(
    cell: Cell, input_size: int, hidden_size: int, storage: Storage, device: Device, save: bool
) -> Kernel:
    """The forward kernel; without `save` it writes the output alone."""
    plan = divide(lower_forward(cell, input_size, hidden_size), save)
    return build(plan, storage, choose(plan, storage, device))


@lru_cache(maxsize=64)
def backward_kernel(
    cell: Cell,
    input_size: int,
    hidden_size: int,
    storage: Storage,
    device: Device,
    input_gradient: bool,
) -> Kernel:
    """The backward kernel."""
    plan = divide(lower_backward(cell, input_size, hidden_size, input_gradient))
    return build(plan, storage, choose(plan, storage, device))


def device_of(x: Tensor) -> Device:
    """What is known of the device of x; of the one that Triton's interpreter takes the place of."""
    if not x.is_cuda:
        return DEVICES["cuda:90"]
    return _device(x.device.index)


@lru_cache(maxsize=64)
def _device(index: int) -> Device:
    if torch.version.hip:
        architecture = torch.cuda.get_device_properties(index).gcnArchName
        return find_device(f"hip:{architecture.partition(':')[0]}")
    major, minor = torch.cuda.get_device_capability(index)
    return find_device(f"cuda:{major}{minor}")


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
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
    all_states: bool = False,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """As `backends.cpu.forward`. Raises BackendError for what the kernels can't do yet."""
    _check(batch_sizes, all_states)
    if not reverse:
        return _forward(cell, x, states, parameters, save)
    output, finals, saved = _forward(cell, x.flip(0), states, parameters, save)
    return output.flip(0), finals, saved


def backward(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    output: Tensor,
    saved: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    input_gradient: bool,
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
    all_states: bool = False,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """As `backends.cpu.backward`. Raises BackendError for what the kernels can't do yet."""
    _check(batch_sizes, all_states)
    if not reverse:
        return _backward(cell, x, states, parameters, output, saved, gradients, input_gradient)
    first, *finals = gradients
    seeds = [None if first is None else first.flip(0), *finals]
    x_gradient, state_gradients, parameter_gradients = _backward(
        cell, x.flip(0), states, parameters, output.flip(0), saved, seeds, input_gradient
    )
    return x_gradient.flip(0), state_gradients, parameter_gradients


def _check(batch_sizes: Tensor | None, all_states: bool) -> None:
    if batch_sizes is None and not all_states:
        return
    found = "all states" if batch_sizes is None else "sequences of unequal lengths"
    mend = "run it on the CPU" if batch_sizes is None else "pad them"
    raise BackendError(f"on a GPU: expected whole sequences of one state, found {found}: {mend}")


def _forward(
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
    kernel = forward_kernel(cell, input_size, hidden, storage_of(x), device_of(x), save)
    tensors = _before(kernel.plan, x, parameters)
    tensors |= {Argument("initial", n): s for n, s in zip(names[1:], states, strict=True)}
    kernel.run(tensors, x)
    output, *saved = (tensors[Argument("sequence", name)] for name in (names[1], *kept))
    return output, [tensors[Argument("final", name)] for name in names[1:]], saved


def _backward(
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
        zeros = [p.new_zeros(p.shape) for p in parameters.values()]
        return x.new_zeros(x.shape), [seed.clone() for seed in seeds[1:]], zeros
    traits = storage_of(x), device_of(x)
    kernel = backward_kernel(cell, x.shape[-1], hidden, *traits, input_gradient)
    tensors = _before(kernel.plan, x, parameters)
    sequences = dict(zip(saved_sequences(cell), saved, strict=True))
    sequences |= {names[0]: output, f"grad.{names[0]}": seeds[0]}
    tensors |= {Argument("sequence", name): s for name, s in sequences.items()}
    tensors |= {Argument("initial", n): s for n, s in zip(names, states, strict=True)}
    carries = zip(names, seeds[1:], strict=True)
    tensors |= {Argument("initial", f"grad.{name}"): seed for name, seed in carries}
    x_gradient = Argument("sequence", f"grad.{input_name}")
    written = x_gradient.name in dict(kernel.plan.program.writes)
    tensors[x_gradient] = (x.new_empty if written else x.new_zeros)(x.shape)
    kernel.run(tensors, x)
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
