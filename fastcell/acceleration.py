"""`accelerate`: a model's recurrent layers of torch.nn become fastcell's, where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from .backends.cpu import DTYPES
from .nn import GRU, LSTM, RNN

_OURS: dict[type[nn.Module], type[nn.Module]] = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


@dataclass(frozen=True)
class Acceleration:
    """What `accelerate` did: modules by their name in the model, which itself is "(model)"."""

    swapped: Mapping[str, str]
    """Name -> the module, as it prints."""
    left: Mapping[str, str]
    """Name -> why torch's own stays."""

    def __str__(self) -> str:
        """A line for each module."""
        lines = [f"{name}: {module}, now fastcell's" for name, module in self.swapped.items()]
        lines += [f"{name}: left as it is, {reason}" for name, reason in self.left.items()]
        return "\n".join(lines) or "no recurrent modules"


def accelerate(model: nn.Module) -> Acceleration:
    """Turns every nn.LSTM, nn.GRU and nn.RNN inside the model, or the model itself, into ours.

    In place: each module stays the object that it is, with its parameters, hooks and names, and
    computes the same. An optimizer goes on with it, a checkpoint still loads. `isinstance` of
    nn.LSTM no longer holds; of nn.RNNBase it does.
    """
    swapped, left = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):
            reason = _reason_to_leave(module)
            if reason:
                left[name or "(model)"] = reason
            else:
                cast(Any, module).__class__ = _OURS[type(module)]
                swapped[name or "(model)"] = str(module)
    return Acceleration(swapped, left)


def _reason_to_leave(module: nn.Module) -> str:
    """Why torch's own stays; nothing if it need not."""
    kind = type(module)
    if kind in _OURS.values():
        return "it is fastcell's already"
    if isinstance(module, nn.RNNCellBase):
        return "a cell runs a single step, at which torch is faster"
    if kind not in _OURS:
        return f"{kind.__name__} is a class of its own, and may compute something else"
    return _reason_of_weights({(each.device.type, each.dtype) for each in module.parameters()})


def _reason_of_weights(found: set[tuple[str, torch.dtype]]) -> str:
    """Why the engine can't take such weights; nothing if it can. Meta weights may go anywhere."""
    for device, dtype in found:
        if device not in ("cpu", "meta"):
            return f"its weights are on {device}, and the engine is on the CPU"
        if dtype not in DTYPES:
            return f"its weights are {dtype}, and the engine takes float32 and float64"
    return ""
