"""Layers over layers, in one or both directions: what every recurrent module does with its runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Run: TypeAlias = Callable[
    [int, bool, Tensor, tuple[Tensor, ...]], tuple[Tensor, tuple[Tensor, ...]]
]
"""(index, reverse, x (T, B, .), states S of (B, .)) -> output (T, B, .), finals S of (B, .)."""


def run_layers(
    run: Run, x: Tensor, states: tuple[Tensor, ...], directions: int, dropout: float
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """x (T, B, I), states S of (layers * D, B, .) -> output (T, B, D * .), states as given.

    Layer k, direction d is run number k * D + d; the output of a layer's runs, side by side, is
    the next one's x, each of its values zeroed with probability `dropout`.
    """
    finals = []
    for first in range(0, states[0].shape[0], directions):
        if first and dropout:
            x = functional.dropout(x, dropout)
        outputs = []
        for index in range(first, first + directions):
            initial = tuple(state[index] for state in states)
            output, final = run(index, index > first, x, initial)
            outputs.append(output)
            finals.append(final)
        x = torch.cat(outputs, dim=-1) if directions == 2 else outputs[0]
    return x, tuple(torch.stack(each) for each in zip(*finals, strict=True))
