"""On a GPU: fastcell against the eager loop and cuDNN, each checked first, then timed by events.

pytest -m gpu bench/bench_gpu.py --benchmark-json bench/results/gpu.json
"""

import statistics

import pytest
import torch
from rivals import PASSES, Case, find_cell, make_rivals, one_pass
from torch import nn

from fastcell.backends import eager

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
pytestmark = [pytest.mark.gpu, NO_GPU]

SIZES = [(64, 48, 64), (1024, 48, 64), (16, 1024, 64), (16, 1024, 256), (64, 512, 512)]
"""(B, T, H), I = H."""
CASES = [Case(name, *size) for name in ("adding_dag", "lstm", "gru", "lswm") for size in SIZES]
ROUNDS = 30


def check(case: Case, module: nn.Module, x: torch.Tensor) -> None:
    """The last outputs are those of the eager loop in float64."""
    cell, states = find_cell(case.cell), module.cell.states
    initial = tuple(x.new_zeros(case.batch, case.hidden).double() for _ in states)
    weights = {name: p.double() for name, p in module.layers[0].tensors().items()}
    with torch.no_grad():
        expected, _ = eager.scan(cell, x.double(), initial, weights)
        found = module(x)[0][-1].double()
    # float32 over all the steps of a sequence, in products that may be tf32
    assert (found - expected[-1]).norm() < 1e-2 * expected[-1].norm()


def milliseconds(run) -> list[float]:
    """Of one pass, by events on the stream; the first passes compile and warm up."""
    for _ in range(3):
        run()
    pairs = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(ROUNDS)]
    for start, end in pairs:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("kind", PASSES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_scan(benchmark, case, kind, precision):
    torch.set_float32_matmul_precision(precision)
    rivals = make_rivals(case, compiled=False, backend="triton")
    rivals = {name: module.cuda() for name, module in rivals.items()}
    x = torch.randn(case.time, case.batch, case.hidden, device="cuda")
    check(case, rivals["fastcell"], x)
    medians = {
        name: statistics.median(milliseconds(one_pass(module, x, kind)))
        for name, module in rivals.items()
    }
    run = one_pass(rivals["fastcell"], x, kind)
    benchmark.pedantic(lambda: (run(), torch.cuda.synchronize()), rounds=ROUNDS, warmup_rounds=3)
    ratios = {name: medians[name] / medians["fastcell"] for name in medians if name != "fastcell"}
    device = torch.cuda.get_device_name()
    benchmark.extra_info.update(device=device, milliseconds=medians, ratios=ratios)
