"""What a task is: data in three parts, and the constant that makes its error comparable."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """N sequences, time first: `inputs` (T, N, channels), `targets` (N, outputs).

    Of tokens, `inputs` is (T, N) and `targets` (N,), both int64.
    """

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Data:
    """The three parts: fitted to, chosen by, judged on."""

    training: Examples
    validation: Examples
    test: Examples


@dataclass(frozen=True)
class Task:
    """A regression from a sequence to its last step's targets.

        NMSE = MSE / variance

    `variance` is the exact variance of a target, so that always guessing the mean scores 1; one
    constant for all cells. `data()` gives the same float32 data at every call.
    """

    name: str
    channels: int
    outputs: int
    variance: float
    data: Callable[[], Data]
