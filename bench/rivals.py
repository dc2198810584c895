"""What every scan benchmark shares: the cases, the rivals, and turns taken fairly.

A rival is a function of nothing that runs one pass. Rivals take turns within one run, so that a
slow moment of the machine falls on all of them; what counts is medians and their ratios.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fastcell import _C, space
from fastcell.ir import Cell
from fastcell.library import CELLS
from fastcell.nn import Recurrent

TORCH_MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
PASSES = ("forward", "forward+backward")


@dataclass(frozen=True)
class Case:
    """One point of the grid; I = H."""

    cell: str
    batch: int = 64
    time: int = 48
    hidden: int = 64

    def __str__(self) -> str:
        return f"{self.cell}-B{self.batch}-T{self.time}-H{self.hidden}"

    @property
    def flops(self) -> int:
        """Of the products of one forward pass, two for each weight, row and step."""
        shapes = find_cell(self.cell).parameters(self.hidden, self.hidden)
        weights = sum(shape[0] * shape[1] for shape in shapes.values() if len(shape) == 2)
        return 2 * weights * self.batch * self.time


def random_cells() -> list[str]:
    """Three cells of the search space, by code; always the same, and none of them explodes."""
    return [str(code) for code in space.sample(3, seed=29)]


def find_cell(name: str) -> Cell:
    return CELLS[name] if name in CELLS else space.decode(int(name))


def make_rivals(case: Case, compiled: bool, backend: str = "cpu") -> dict[str, nn.Module]:
    """Modules by name, fastcell first; `compiled` adds torch.compile, slow to start."""
    cell, size = find_cell(case.cell), case.hidden
    rivals: dict[str, nn.Module] = {
        "fastcell": Recurrent(cell, size, size, backend=backend),
        "eager": Recurrent(cell, size, size, backend="eager"),
    }
    if case.cell in TORCH_MODULES:
        rivals["torch"] = TORCH_MODULES[case.cell](size, size)
    if compiled:
        rivals["compile"] = torch.compile(Recurrent(cell, size, size, backend="eager"))
    return rivals


def one_pass(module: nn.Module, x: Tensor, kind: str) -> Callable[[], object]:
    """A forward pass without gradients, or a forward and a backward pass with all of them."""
    if kind == "forward":
        return torch.no_grad()(lambda: module(x))
    leaves = [x.requires_grad_(), *module.parameters()]
    output, _ = module(x)
    seed = torch.ones_like(output)
    # A random cell need not read all it has.
    return lambda: torch.autograd.grad(module(x)[0], leaves, seed, allow_unused=True)


def take_turns(rivals: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Seconds a pass, for each rival; every rival has at least five turns."""
    for run in rivals.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in rivals}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def quartiles(times: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(times, n=4)
    return low, middle, high


def peak_flops() -> float:
    """The multiply-and-add rate of all threads, measured now, in flop/s."""
    return float(_C.fma_peak(torch.get_num_threads(), 0.3, "float32"))
