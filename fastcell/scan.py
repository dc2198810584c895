"""`fastcell::scan`, the one torch operator: a cell over a whole sequence, on any engine.

    scan(x (T, B, I), states S of (B, H), parameters, cell, save)
        -> output (T, B, H), finals S of (B, H), then what the backward operator needs if `save`

The cell travels as its text, so that a traced or exported graph is complete. Parameters come in
the order of `cell.parameters`. The backward operator has no derivative of its own: for second
derivatives there is the eager backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .backends import cpu, eager
from .errors import BackendError
from .ir import Cell
from .language import parse
from .lower import lower

Scan: TypeAlias = Callable[
    [Cell, Tensor, tuple[Tensor, ...], dict[str, Tensor]], tuple[Tensor, tuple[Tensor, ...]]
]
"""(cell, x (T, B, I), states S of (B, H), parameters) -> outputs (T, B, H), finals S of (B, H)."""

_library = torch.library.Library("fastcell", "DEF")
_library.define(
    "scan(Tensor x, Tensor[] states, Tensor[] parameters, str cell, bool save) -> Tensor[]"
)
_library.define(
    "scan_backward(Tensor x, Tensor[] states, Tensor[] parameters, Tensor[] saved,"
    " Tensor?[] gradients, str cell, bool input_gradient) -> Tensor[]"
)


def compiled_scan(
    cell: Cell, x: Tensor, states: tuple[Tensor, ...], parameters: dict[str, Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The operator as a `Scan`."""
    tensors = [x, *states, *parameters.values()]
    save = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    values = list(parameters.values())
    results = torch.ops.fastcell.scan(x, list(states), values, _text(cell), save)
    return results[0], tuple(results[1 : 1 + len(states)])


@lru_cache(maxsize=512)
def _text(cell: Cell) -> str:
    return str(cell)


@lru_cache(maxsize=512)
def _cell(text: str) -> Cell:
    return parse(text)


def _named(cell: Cell, x: Tensor, states: Sequence[Tensor], values: Sequence[Tensor]) -> Any:
    names = cell.parameters(x.shape[-1], states[0].shape[-1])
    return dict(zip(names, values, strict=True))


@torch.library.impl(_library, "scan", "CPU")
def _scan_cpu(
    x: Tensor, states: list[Tensor], parameters: list[Tensor], cell: str, save: bool
) -> list[Tensor]:
    parsed = _cell(cell)
    named = _named(parsed, x, states, parameters)
    output, finals, saved = cpu.forward(parsed, x, states, named, save)
    return [output, *finals, *saved]


@torch.library.impl(_library, "scan_backward", "CPU")
def _scan_backward_cpu(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    saved: list[Tensor],
    gradients: list[Tensor | None],
    cell: str,
    input_gradient: bool,
) -> list[Tensor]:
    parsed = _cell(cell)
    named = _named(parsed, x, states, parameters)
    x_gradient, state_gradients, parameter_gradients = cpu.backward(
        parsed, x, states, named, saved[0], saved[1:], gradients, input_gradient
    )
    return [x_gradient, *state_gradients, *parameter_gradients]


@torch.library.register_fake("fastcell::scan", lib=_library)
def _scan_fake(
    x: Tensor, states: list[Tensor], parameters: list[Tensor], cell: str, save: bool
) -> list[Tensor]:
    steps, batch, _ = x.shape
    hidden = states[0].shape[-1]
    parsed = _cell(cell)
    kept = len(cpu.saved_names(lower(parsed, x.shape[-1], hidden), parsed)) if save else 0
    output = x.new_empty(steps, batch, hidden)
    finals = [x.new_empty(batch, hidden) for _ in states]
    return [output, *finals, *(x.new_empty(steps, batch, hidden) for _ in range(kept))]


@torch.library.register_fake("fastcell::scan_backward", lib=_library)
def _scan_backward_fake(
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    saved: list[Tensor],
    gradients: list[Tensor | None],
    cell: str,
    input_gradient: bool,
) -> list[Tensor]:
    return [x.new_empty(x.shape)] + [t.new_empty(t.shape) for t in (*states, *parameters)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    x, states, parameters, cell, _ = inputs
    ctx.cell, ctx.states = cell, len(states)
    ctx.save_for_backward(x, *states, *parameters, output[0], *output[1 + len(states) :])
    ctx.parameters = len(parameters)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    x, *rest = ctx.saved_tensors
    states, rest = rest[: ctx.states], rest[ctx.states :]
    parameters, saved = rest[: ctx.parameters], rest[ctx.parameters :]
    results = torch.ops.fastcell.scan_backward(
        x,
        states,
        parameters,
        saved,
        list(gradients[: 1 + ctx.states]),
        ctx.cell,
        ctx.needs_input_grad[0],
    )
    first = 1 + ctx.states
    x_gradient = results[0] if ctx.needs_input_grad[0] else None
    return x_gradient, results[1:first], results[first:], None, None


torch.library.register_autograd(
    "fastcell::scan", _backward, setup_context=_setup_context, lib=_library
)


def _no_second_derivative(ctx: Any, *_: Any) -> None:
    raise BackendError(
        "fastcell::scan has no second derivative: expected one backward pass; found a second one"
        " through it. Use backend='eager' for that"
    )


torch.library.register_autograd("fastcell::scan_backward", _no_second_derivative, lib=_library)

_SCANS: dict[str, Scan] = {"eager": eager.scan, "cpu": compiled_scan}
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
    fits = x.device.type == "cpu" and x.dtype in cpu.DTYPES
    if name == "cpu" and not fits:
        found = f"{x.dtype} on {x.device}"
        raise BackendError(f"backend='cpu': expected float32 or float64 on the CPU; found {found}")
    return _SCANS["cpu" if fits else "eager"] if name == AUTO else _SCANS[name]
