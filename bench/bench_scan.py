"""Whole sequences: fastcell against the eager loop, torch's own modules and the machine's peak.

By default the grid is walked one axis at a time from (B, T, H) = (64, 48, 64); `--full-grid` walks
all of it, `--compiled` adds torch.compile of the eager loop, which takes minutes to start.
"""

import statistics
import subprocess
import sys
import time
from itertools import product

import pytest
import torch
from rivals import (
    PASSES,
    Case,
    find_cell,
    make_rivals,
    one_pass,
    peak_flops,
    quartiles,
    random_cells,
    take_turns,
)
from torch import nn

from fastcell.backends import eager
from fastcell.library import CELLS
from fastcell.nn import Recurrent

CELL_NAMES = [*CELLS, *random_cells()]
SWEPT = ["adding_dag", "lstm"]
AXES = {"batch": (1, 16, 64, 256, 1024), "time": (7, 48, 512), "hidden": (64, 128, 256, 512)}
SECONDS = 1.0


def one_axis_at_a_time() -> list[Case]:
    cases = {Case(name): None for name in CELL_NAMES}
    for name in SWEPT:
        for axis, values in AXES.items():
            cases |= {Case(name, **{axis: value}): None for value in values}
    cases[Case("lstm", batch=1, time=512, hidden=256)] = None
    return [*cases, Case("lstm", batch=1024), Case("gru", batch=1024)]


def full_grid() -> list[Case]:
    points = product(CELL_NAMES, *AXES.values())
    return [Case(name, *point) for name, *point in points]


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--full-grid")
        cases = full_grid() if whole else list(dict.fromkeys(one_axis_at_a_time()))
        metafunc.parametrize("case", cases, ids=str)


def check(case: Case, module: nn.Module) -> None:
    """The outputs are those of the eager loop in float64: each step's error against its norm."""
    x = torch.randn(case.time, min(case.batch, 64), case.hidden)
    output, _ = module(x)
    (layer,) = module.layers
    parameters = {name: p.double() for name, p in layer.tensors().items()}
    cell = find_cell(case.cell)
    states = tuple(torch.zeros(x.shape[1], case.hidden).double() for _ in cell.states)
    expected, _ = eager.scan(cell, x.double(), states, parameters)
    error = (output.double() - expected).norm(dim=(1, 2))
    assert (error <= 1e-3 * expected.norm(dim=(1, 2))).all(), f"{case}: {error.max():.2g} off"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch.compile's own
@pytest.mark.parametrize("kind", PASSES)
def test_scan(benchmark, request, case, kind):
    rivals = make_rivals(case, request.config.getoption("--compiled"))
    with torch.no_grad():
        check(case, rivals["fastcell"])
    x = torch.randn(case.time, case.batch, case.hidden)
    runs = {name: one_pass(module, x, kind) for name, module in rivals.items()}
    times = take_turns(runs, SECONDS)
    ours = statistics.median(times["fastcell"])
    flops = case.flops * (3 if kind == PASSES[1] else 1)
    benchmark.group = kind
    benchmark.extra_info |= {
        "case": str(case),
        "threads": torch.get_num_threads(),
        "quartiles": {name: quartiles(each) for name, each in times.items()},
        "ratios": {name: statistics.median(each) / ours for name, each in times.items()},
        "fraction_of_peak": flops / ours / peak_flops(),
    }
    benchmark.pedantic(runs["fastcell"], rounds=5)


def test_first_call(benchmark):
    """A cell never seen before: its first forward and backward pass beyond a later one, seconds."""
    x = torch.randn(48, 64, 64, requires_grad=True)
    modules = [Recurrent(find_cell(name), 64, 64, backend="cpu") for name in random_cells()]
    one_pass(Recurrent(CELLS["lstm"], 64, 64, backend="cpu"), x, PASSES[1])()
    beyond = []
    for module in modules:
        times = []
        for _ in range(6):
            start = time.perf_counter()
            module(x)[0].sum().backward()
            times.append(time.perf_counter() - start)
        beyond.append(times[0] - statistics.median(times[1:]))
    benchmark.extra_info["seconds_beyond_a_later_call"] = beyond
    benchmark.pedantic(lambda: modules[0](x)[0].sum().backward(), rounds=5)


def test_step(benchmark):
    """One streaming step at batch 1, H = 64, beside nn.LSTMCell."""
    module, cell = Recurrent(CELLS["lstm"], 64, 64), nn.LSTMCell(64, 64)
    x, zeros = torch.randn(1, 64), torch.zeros(1, 64)
    state = (zeros[None], zeros[None])
    with torch.no_grad():
        runs = {"fastcell": lambda: module.step(x, state), "torch": lambda: cell(x, (zeros, zeros))}
        times = take_turns({name: torch.no_grad()(run) for name, run in runs.items()}, SECONDS)
        ours = statistics.median(times["fastcell"])
        benchmark.extra_info["ratios"] = {
            name: statistics.median(each) / ours for name, each in times.items()
        }
        benchmark.pedantic(runs["fastcell"], rounds=5, iterations=100)


PEAK_MEMORY = """
import sys, torch
from pathlib import Path
from fastcell.library import CELLS
from fastcell.nn import Recurrent

def kilobytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])

torch.set_num_threads(2)
module = Recurrent(CELLS["adding_dag"], 64, 64, backend=sys.argv[1])
module(torch.randn(2, 2, 64))[0].sum().backward()
x = torch.randn(96, 1024, 64, requires_grad=True)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
before = kilobytes("VmRSS")
module(x)[0].sum().backward()
print(kilobytes("VmHWM") - before)
"""


def peak_kilobytes(backend: str) -> int:
    command = [sys.executable, "-c", PEAK_MEMORY, backend]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_peak_memory(benchmark):
    """Growth of the process over a forward and backward pass of adding_dag, each in its own."""
    ours = benchmark.pedantic(peak_kilobytes, args=("cpu",), rounds=1)
    eager_loop = peak_kilobytes("eager")
    benchmark.extra_info["kilobytes"] = {"fastcell": ours, "eager": eager_loop}
    benchmark.extra_info["ratios"] = {"eager": eager_loop / ours}
