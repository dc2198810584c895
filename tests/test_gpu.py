"""The Triton engine on a GPU: pytest -m gpu. Against eager float64 and cuDNN, bit for bit again."""

import pytest
import torch
from conftest import TOLERANCE
from test_scan import make_case, results
from torch import nn

from fastcell import space
from fastcell.backends import eager
from fastcell.backends.triton import engine
from fastcell.library import CELLS
from fastcell.nn import Recurrent
from fastcell.scan import compiled_scan

pytestmark = pytest.mark.gpu

SHAPES = [(1, 1, 1), (48, 33, 7), (5, 33, 64), (5, 5, 91), (3, 5, 130), (3, 17, 300)]


def on_gpu(cell, shape, dtype, seed=0):
    x, states, parameters, seeds = make_case(cell, shape, dtype, seed)

    def move(tensor):
        return tensor.detach().cuda().requires_grad_()

    moved = {name: move(parameter) for name, parameter in parameters.items()}
    return move(x), tuple(map(move, states)), moved, [seed.cuda() for seed in seeds]


def assert_agrees(cell, shape, seed=0):
    expected = results(eager.scan, cell, on_gpu(cell, shape, torch.float64, seed))
    found = results(compiled_scan, cell, on_gpu(cell, shape, torch.float32, seed))
    for ours, theirs in zip(found, expected, strict=True):
        unit = theirs.abs().max().clamp(min=1)
        ours = ours.double() / unit
        torch.testing.assert_close(ours, theirs / unit, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_library_cells_match_eager(name, shape):
    assert_agrees(CELLS[name], shape)


def test_random_space_cells_match_eager():
    for number, code in enumerate(space.sample(40, seed=5)):
        assert_agrees(space.decode(int(code)), (5, 3, 20), seed=number)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_half_precision(name, dtype):
    """Off by a rounding of what is stored."""
    cell = CELLS[name]
    expected = results(eager.scan, cell, on_gpu(cell, (20, 17, 64), torch.float64))
    found = results(compiled_scan, cell, on_gpu(cell, (20, 17, 64), dtype))
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.double() - theirs).norm() < 16 * torch.finfo(dtype).eps * theirs.norm()


def test_lstm_is_cudnn():
    torch.manual_seed(0)
    theirs, ours = nn.LSTM(64, 64).cuda(), Recurrent(CELLS["lstm"], 64, 64).cuda()
    weights = torch.cat([theirs.weight_ih_l0, theirs.weight_hh_l0], 1).detach().chunk(4)
    biases = (theirs.bias_ih_l0 + theirs.bias_hh_l0).detach().chunk(4)
    names = [f"layers.0.{gate}" for gate in "ifgo"]
    state = {f"{name}.weight": weight for name, weight in zip(names, weights, strict=True)}
    state |= {f"{name}.bias": bias for name, bias in zip(names, biases, strict=True)}
    ours.load_state_dict(state)
    xs = [torch.randn(48, 65, 64, device="cuda").requires_grad_()]
    xs.append(xs[0].detach().clone().requires_grad_())
    with torch.backends.cudnn.flags(allow_tf32=False):
        for module, x in zip((ours, theirs), xs, strict=True):
            module(x)[0].square().sum().backward()
    torch.testing.assert_close(xs[0].grad, xs[1].grad, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("hidden", [64, 256])
def test_the_same_inputs_give_the_same_bits(hidden):
    """200 times: a race would show."""
    case = on_gpu(CELLS["adding_dag"], (16, 100, hidden), torch.float32)
    first = results(compiled_scan, CELLS["adding_dag"], case)
    for _ in range(200):
        again = results(compiled_scan, CELLS["adding_dag"], case)
        assert all(map(torch.equal, first, again))


def test_a_long_sequence():
    assert_agrees(CELLS["lswm"], (70_000, 2, 16))


def test_offsets_beyond_32_bits():
    """T * B * H > 2^31: the last steps are those of the sequence's end alone."""
    module = Recurrent(CELLS["lstm"], 1, 64).cuda().bfloat16()
    steps, batch = 2049, 16_384
    x = torch.ones(steps, batch, 1, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        whole, _ = module(x)
        short, _ = module(x[:, :1])
    assert torch.equal(whole[-1, -1], short[-1, 0])


def test_a_new_length_or_batch_compiles_nothing():
    module = Recurrent(CELLS["gru"], 8, 24).cuda()
    module(torch.ones(3, 2, 8, device="cuda"))[0].sum().backward()
    kernels = [engine.forward_kernel, engine.backward_kernel]
    made = [kernel.cache_info().misses for kernel in kernels]
    for steps, batch in [(1, 1), (16, 16), (33, 100)]:
        module(torch.ones(steps, batch, 8, device="cuda"))[0].sum().backward()
    assert made == [kernel.cache_info().misses for kernel in kernels]


def test_in_a_cuda_graph():
    module = Recurrent(CELLS["lstm"], 8, 64).cuda()
    x = torch.randn(10, 4, 8, device="cuda")
    with torch.no_grad():
        expected = module(x)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = module(x)[0]
        graph.replay()
    assert torch.equal(found, expected)
