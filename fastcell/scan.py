"""`fastcell::scan`, the one torch operator: a cell over a whole sequence, on any engine.

    scan(x (T, B, I), states S of (B, H), parameters, cell, save, batch_sizes, reverse,
         all_states)
        -> output (T, B, H), finals S of (B, H), then what the backward operator needs if `save`

With `reverse` the run goes from the last step to the first. With `batch_sizes` (T,), int64 on the
CPU and falling, step t has so many rows, the first ones of the batch: x is then (N, I), the rows of
step after step as in a PackedSequence, and the output (N, H). With `all_states` the output has
every state side by side, (T, B, S * H).

The cell travels as its text, so that a traced or exported graph is complete. Parameters come in
the order of `cell.parameters`. The backward operator has no derivative of its own: for second
derivatives there is the eager backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from .backends import cpu, eager
from .backends.dispatch import engine_of
from .errors import BackendError, ShapeError
from .ir import Cell
from .language import parse
from .lower import saved_sequences


class Scan(Protocol):
    """x (T, B, I) or (N, I), states S of (B, H) -> output, finals S of (B, H): see the operator."""

    def __call__(
        self,
        cell: Cell,
        x: Tensor,
        states: tuple[Tensor, ...],
        parameters: dict[str, Tensor],
        batch_sizes: Tensor | None = None,
        reverse: bool = False,
        all_states: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]: ...


_library = torch.library.Library("fastcell", "DEF")
_library.define(
    "scan(Tensor x, Tensor[] states, Tensor[] parameters, str cell, bool save,"
    " Tensor? batch_sizes, bool reverse, bool all_states) -> Tensor[]"
)
_library.define(
    "scan_backward(Tensor x, Tensor[] states, Tensor[] parameters, Tensor[] saved,"
    " Tensor?[] gradients, str cell, bool input_gradient,"
    " Tensor? batch_sizes, bool reverse, bool all_states) -> Tensor[]"
)


def compiled_scan(
    cell: Cell,
    x: Tensor,
    states: tuple[Tensor, ...],
    parameters: dict[str, Tensor],
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
    all_states: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The operator as a `Scan`; under autocast in the dtype that `_autocast_dtype` tells."""
    dtype = _autocast_dtype([x, *states, *parameters.values()])
    if dtype is not None:
        x, states = x.to(dtype), tuple(state.to(dtype) for state in states)
        parameters = {name: parameter.to(dtype) for name, parameter in parameters.items()}
    tensors = [x, *states, *parameters.values()]
    for tensor in tensors:
        if tensor.device != x.device:
            mend = f"move the module and the states with .to('{x.device}')"
            raise ShapeError(
                f"expected all tensors on {x.device} as x is, found {tensor.device}: {mend}"
            )
    save = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if save and not torch.compiler.is_compiling():
        facts = (cell.text, save, len(states), batch_sizes, reverse, all_states)
        results = _apply(_Differentiable, *facts, *tensors)
    else:
        values = list(parameters.values())
        args = (x, list(states), values, cell.text, save)
        results = torch.ops.fastcell.scan(*args, batch_sizes, reverse, all_states)
    return results[0], tuple(results[1 : 1 + len(states)])


@lru_cache(maxsize=512)
def _cell(text: str) -> Cell:
    return parse(text)


def _autocast_dtype(tensors: Sequence[Tensor]) -> torch.dtype | None:
    """On a GPU the one that autocast names; on the CPU float32, or float64 if a tensor is."""
    if tensors[0].is_cuda and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    if not torch.is_autocast_enabled("cpu"):
        return None
    doubles = any(tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if doubles else torch.float32


def _named(
    cell: Cell, x: Tensor, states: Sequence[Tensor], values: Sequence[Tensor]
) -> dict[str, Tensor]:
    """The parameters by name, everything checked: the engine gets bare addresses."""
    hidden = states[0].shape[-1]
    shapes = cell.parameters(x.shape[-1], hidden)
    named = dict(zip(shapes, values, strict=True))
    cpu.check(x, named, shapes)
    expected = (states[0].shape[0] if x.dim() == 2 else x.shape[1], hidden)
    cpu.check(x, {str(s.name): t for s, t in zip(cell.states, states, strict=True)}, {}, expected)
    return named


@torch.library.impl(_library, "scan", "CPU")
@torch.library.impl(_library, "scan", "CUDA")
def _scan(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    cell: str,
    save: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> list[Tensor]:
    parsed = _cell(cell)
    named = _named(parsed, x, states, parameters)
    options = (save, batch_sizes, reverse, all_states)
    output, finals, saved = engine_of(x).forward(parsed, x, states, named, *options)
    return [output, *finals, *saved]


@torch.library.impl(_library, "scan_backward", "CPU")
@torch.library.impl(_library, "scan_backward", "CUDA")
def _scan_backward(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    saved: list[Tensor],
    gradients: list[Tensor | None],
    cell: str,
    input_gradient: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> list[Tensor]:
    parsed = _cell(cell)
    named = _named(parsed, x, states, parameters)
    runs = (saved[0], saved[1:], gradients, input_gradient, batch_sizes, reverse, all_states)
    x_gradient, state_gradients, parameter_gradients = engine_of(x).backward(
        parsed, x, states, named, *runs
    )
    return [x_gradient, *state_gradients, *parameter_gradients]


def _scan_fake(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    cell: str,
    save: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> list[Tensor]:
    batch, hidden = states[0].shape
    kept = saved_sequences(_cell(cell), all_states) if save else ()
    output = x.new_empty(*x.shape[:-1], hidden * (len(states) if all_states else 1))
    finals = [x.new_empty(batch, hidden) for _ in states]
    return [output, *finals, *(x.new_empty(*x.shape[:-1], hidden) for _ in kept)]


def _scan_backward_fake(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    saved: list[Tensor],
    gradients: list[Tensor | None],
    cell: str,
    input_gradient: bool,
    batch_sizes: Tensor | None,
    reverse: bool,
    all_states: bool,
) -> list[Tensor]:
    return [x.new_empty(x.shape)] + [t.new_empty(t.shape) for t in (*states, *parameters)]


torch.library.register_fake("fastcell::scan", _scan_fake, lib=_library)
torch.library.register_fake("fastcell::scan_backward", _scan_backward_fake, lib=_library)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    x, states, parameters, cell, _, batch_sizes, *ctx.order = inputs
    ctx.cell, ctx.states = cell, len(states)
    ctx.save_for_backward(
        batch_sizes, x, *states, *parameters, output[0], *output[1 + len(states) :]
    )
    ctx.parameters = len(parameters)
    ctx.x_position = 0
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    batch_sizes, x, *rest = ctx.saved_tensors
    states, rest = rest[: ctx.states], rest[ctx.states :]
    parameters, saved = rest[: ctx.parameters], rest[ctx.parameters :]
    direct, x_needed = list(gradients[: 1 + ctx.states]), ctx.needs_input_grad[ctx.x_position]
    args, order = (x, states, parameters, saved, direct), (batch_sizes, *ctx.order)
    if torch._C._are_functorch_transforms_active():
        sizes = [len(each) for each in args[1:]]
        flat = [tensor for each in args[1:] for tensor in each]
        facts = (ctx.cell, x_needed, sizes, *order)
        results = _apply(_TransformedBackward, *facts, x, *flat)
    else:
        results = torch.ops.fastcell.scan_backward(*args, ctx.cell, x_needed, *order)
    first = 1 + ctx.states
    x_gradient = results[0] if x_needed else None
    return x_gradient, results[1:first], results[first:], None, None, None, None, None


torch.library.register_autograd(
    "fastcell::scan", _backward, setup_context=_setup_context, lib=_library
)


class _Differentiable(torch.autograd.Function):
    """The operator as a Function of plain tensors.

    torch.func's transforms want one, and it costs a fraction of what torch's own wrapping of an
    operator over lists does; graphs have the operator itself.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        cell: str,
        save: bool,
        states: int,
        batch_sizes: Tensor | None,
        reverse: bool,
        all_states: bool,
        x: Tensor,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        args = list(rest[:states]), list(rest[states:])
        order = (batch_sizes, reverse, all_states)
        return tuple(torch.ops.fastcell.scan(x, *args, cell, save, *order))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        cell, save, states, *order = inputs[:6]
        x, *rest = inputs[6:]
        operands = (x, rest[:states], rest[states:], cell, save, *order)
        _setup_context(ctx, operands, list(output))
        ctx.x_position = 6

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        x, states, parameters, *_ = _backward(ctx, list(gradients))
        return None, None, None, None, None, None, x, *states, *parameters

    @staticmethod
    def jvp(ctx: Any, *gradients: Any) -> None:
        _no_forward_derivative(ctx)


class _TransformedBackward(torch.autograd.Function):
    """The backward operator under torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        cell: str,
        input_gradient: bool,
        sizes: list[int],
        batch_sizes: Tensor | None,
        reverse: bool,
        all_states: bool,
        x: Tensor,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        tensors = iter(rest)
        groups = [list(islice(tensors, size)) for size in sizes]
        facts = (cell, input_gradient, batch_sizes, reverse, all_states)
        return tuple(torch.ops.fastcell.scan_backward(x, *groups, *facts))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: there is no second derivative."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        _no_second_derivative(ctx, *gradients)


def _apply(function: Any, *args: Any) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = function.apply(*args)
    return results


def _no_forward_derivative(ctx: Any, *_: Any) -> None:
    raise BackendError(
        "fastcell::scan has no forward-mode derivative: expected grad, vjp or jacrev; found jvp,"
        " jacfwd or hessian. Use backend='eager' for those"
    )


def _no_second_derivative(ctx: Any, *_: Any) -> None:
    raise BackendError(
        "fastcell::scan has no second derivative: expected one backward pass; found a second one"
        " through it. Use backend='eager' for that"
    )


torch.library.register_autograd("fastcell::scan_backward", _no_second_derivative, lib=_library)


def _replicas(op: Callable[..., list[Tensor]]) -> Callable[..., tuple[list[Tensor], list[int]]]:
    """The vmap rule: a run for each replica, whatever of it is stacked."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[list[Tensor], list[int]]:
        def select(value: Any, dim: Any, index: int) -> Any:
            if isinstance(value, list | tuple):
                dims = dim if isinstance(dim, list | tuple) else [dim] * len(value)
                return [select(v, d, index) for v, d in zip(value, dims, strict=True)]
            return value if dim is None else value.select(dim, index)

        runs = [op(*select(args, in_dims, index)) for index in range(info.batch_size)]
        if not runs:
            raise BackendError("fastcell::scan under vmap: expected replicas, found none")
        results = [torch.stack(replicas) for replicas in zip(*runs, strict=True)]
        return results, [0] * len(results)

    return rule


for _op in (torch.ops.fastcell.scan.default, torch.ops.fastcell.scan_backward.default):
    torch.library.register_vmap(_op, _replicas(_op), lib=_library)
torch.library.register_autocast("fastcell::scan", "cpu", torch.float32, lib=_library)

_SCANS: dict[str, Scan] = {"eager": eager.scan, "cpu": compiled_scan, "triton": compiled_scan}
_DEVICES = {"cpu": "cpu", "triton": "cuda"}
_DTYPES = {"cpu": tuple(cpu.DTYPES), "triton": (torch.float32, torch.float16, torch.bfloat16)}
AUTO = "auto"


def check_backend(name: str) -> None:
    """Raises BackendError unless `name` is a backend or "auto"."""
    if name != AUTO and name not in _SCANS:
        known = ", ".join([AUTO, *_SCANS])
        raise BackendError(f"backend: expected one of {known}; found {name!r}")


def resolve(name: str, x: Tensor) -> Scan:
    """The scan of the backend called `name`; "auto" is the fastest for the device of x.

    Raises BackendError when there is none of that name, or it can't take x.
    """
    check_backend(name)
    if name == AUTO:
        name = next((engine for engine in _DEVICES if _fits(engine, x)), "eager")
    elif name in _DEVICES and not _fits(name, x):
        dtypes = ", ".join(str(dtype) for dtype in _DTYPES[name])
        expected = f"expected {dtypes} on {_DEVICES[name]}"
        raise BackendError(f"backend='{name}': {expected}; found {x.dtype} on {x.device}")
    return _SCANS[name]


def _fits(engine: str, x: Tensor) -> bool:
    """Whether the engine can take x, with what autocast makes of it."""
    device = _DEVICES[engine]
    known = x.dtype in _DTYPES[engine] or torch.is_autocast_enabled(device)
    return x.device.type == device and known


def may_stream(backend: str, x: Tensor) -> bool:
    """Whether a single step of x may go straight to the CPU engine: nobody is watching."""
    watched = torch.is_grad_enabled() or torch.compiler.is_compiling()
    watched = watched or torch._C._are_functorch_transforms_active() or type(x) is not Tensor
    plain = x.is_cpu and x.dtype in cpu.DTYPES and not torch.is_autocast_enabled("cpu")
    return plain and not watched and backend in (AUTO, "cpu")
