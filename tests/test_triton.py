"""The Triton engine's numbers: Triton's interpreter in float32 against eager float64."""

import numpy as np
import pytest
import torch
import triton_scan
from conftest import TOLERANCE
from programs import random_text
from test_scan import make_case, results

import fastcell
from fastcell import BackendError, space
from fastcell.backends import eager
from fastcell.backends.triton import engine
from fastcell.backends.triton.cost import DEVICES, Choice
from fastcell.backends.triton.module import Tile
from fastcell.backends.triton.plan import Argument
from fastcell.library import CELLS
from fastcell.lower import saved_sequences
from fastcell.ops import FUNCTIONS

SHAPES = [(1, 1, 1), (2, 5, 7), (48, 17, 7), (3, 33, 64), (2, 5, 91), (2, 1, 105), (2, 5, 130)]
"""(T, B, H): one tile and several, of widths that are powers of two and that are not."""


DEVICE = DEVICES["cuda:90"]
# Lanes beyond H compute with zeros; numpy, which stands in for them, warns of 1 / 0.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True, scope="module")
def sources(tmp_path_factory):
    """Generated files go to a folder of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTCELL_CACHE_DIR", str(tmp_path_factory.mktemp("sources")))
        yield


@pytest.fixture(params=["streamed", "stepwise"])
def strategy(request, monkeypatch):
    """The strategy for hidden sizes beyond the small ones here, in tiles that don't fit them."""
    choice = Choice(request.param, Tile(rows=16, columns=32, depth=16), "")
    monkeypatch.setattr(engine, "choose", lambda *_: choice)
    engine.forward_kernel.cache_clear()
    engine.backward_kernel.cache_clear()
    yield request.param
    engine.forward_kernel.cache_clear()
    engine.backward_kernel.cache_clear()


def assert_agrees(cell, shape, seed=0):
    """Outputs, finals and every gradient.

    In units of each tensor's largest value, where that is above 1: what cancels in a sum still has
    the rounding of its summands, in the eager float32 loop too.
    """
    expected = results(eager.scan, cell, make_case(cell, shape, torch.float64, seed))
    found = results(triton_scan.scan, cell, make_case(cell, shape, torch.float32, seed))
    for ours, theirs in zip(found, expected, strict=True):
        unit = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        ours = ours.double() / unit
        torch.testing.assert_close(ours, theirs / unit, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_library_cells_match_eager(name, shape):
    assert_agrees(CELLS[name], shape)


@pytest.mark.parametrize("shape", [(3, 18, 33), (2, 3, 64)], ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_library_cells_match_eager_in_stages(name, shape, strategy):
    assert_agrees(CELLS[name], shape)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_match_eager_in_stages(seed, strategy):
    assert_agrees(fastcell.parse(random_text(seed, size=14)), (3, 3, 18), seed)


def test_random_space_cells_match_eager_in_stages(strategy):
    for number, code in enumerate(space.sample(6, seed=8)):
        assert_agrees(space.decode(int(code)), (3, 2, 34), seed=number)


def test_random_space_cells_match_eager():
    for number, code in enumerate(space.sample(40, seed=5)):
        assert_agrees(space.decode(int(code)), (3, 2, 7), seed=number)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_match_eager(seed):
    assert_agrees(fastcell.parse(random_text(seed, size=14)), (4, 3, 7), seed)


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_every_operation(op):
    """Its value and derivative, within a step; a new row of `ops` is tested here as it is."""
    step = f"    a = 3 * tanh(linear(x, h))\n    return {op}(a) - 0.1 * a * {op}(x - a)"
    text = f"def one(x, h):\n{step}"
    assert_agrees(fastcell.parse(text), (3, 17, 20))


ODD = [
    "def swap(x, a, b):\n    return b, a + tanh(linear(x, b))",
    "def late(x, a, b, c):\n    return tanh(linear(x, a)), a, b + c",
    "def learned(x, h, c):\n    v = vector(0.5)\n    return v * linear(x, c), v + 0 * h",
    "def plain(x, h):\n    return x + 0.5 * h",
    "def linear_only(x, h, c):\n    return linear(x, c, bias=False), linear(h)",
    "def twice(x, h):\n    return tanh(linear(h, h) + linear(x)) / (1 + exp(linear(x)))",
    "def rows(x, h):\n    v = vector(1)\n    return tanh(linear(v, h) + linear(x))",
    "def numbers(x, h):\n    s = scalar(2)\n    return linear(x, x) * s + tanh(s) * h",
    "def early(x, h):\n    return tanh(linear(tanh(x), h)) + linear(x)",
    "def shared(x, h):\n    y = linear(x + h)\n    return y",
]
"""States that change places, constant ones, sources of every kind, gradients in two places."""


@pytest.mark.parametrize("text", ODD)
def test_odd_cells(text):
    assert_agrees(fastcell.parse(text), (5, 3, 7))


@pytest.mark.parametrize("text", ODD)
def test_odd_cells_in_stages(text, strategy):
    assert_agrees(fastcell.parse(text), (4, 3, 35))


def test_names_of_a_cell_are_no_danger():
    """Those of Triton, of Python and of the kernel itself."""
    text = """
def load(at, tl, here, w_in_x):
    dot = tanh(linear(at, tl))
    T = sigmoid(linear(dot, here)) * dot
    h_rows = dot + T + vector(0.5)
    return h_rows * here, tanh(h_rows), w_in_x + T
"""
    assert_agrees(fastcell.parse(text), (3, 2, 7))


@pytest.mark.parametrize("shape", [(0, 3, 5), (4, 0, 5)], ids=str)
def test_no_steps_and_no_rows(shape):
    assert_agrees(CELLS["lstm"], shape)


@pytest.mark.parametrize("name", ["lstm", "gru", "adding_dag", "lswm"])
def test_awkward_memory(name):
    """x a slice at an odd address, states repeated, the gradient of a sum."""
    cell = CELLS[name]
    base = torch.randn(6, 10, 4, 2)
    parameters = {
        name: torch.randn(shape).requires_grad_() for name, shape in cell.parameters(4, 4).items()
    }
    for x in (base[..., 1].transpose(0, 1), base[1, 0, :, 1].expand(5, 3, 4)):
        states = tuple(
            torch.randn(1, 4).expand(x.shape[1], 4).requires_grad_() for _ in cell.states
        )
        leaves = [*states, *parameters.values()]
        grads = [
            torch.autograd.grad(scan(cell, x, states, parameters)[0].sum(), leaves)
            for scan in (eager.scan, triton_scan.scan)
        ]
        for theirs, ours in zip(*grads, strict=True):
            torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("scale", [50, 1e4])
@pytest.mark.parametrize("name", sorted(CELLS))
def test_saturated_cells_stay_finite(name, scale):
    cell = CELLS[name]
    x, states, parameters, seeds = make_case(cell, (4, 3, 8), torch.float32)
    case = (x.detach() * scale).requires_grad_(), states, parameters, seeds
    exact = make_case(cell, (4, 3, 8), torch.float64)
    exact = (exact[0].detach() * scale).requires_grad_(), *exact[1:]
    ours, theirs = results(triton_scan.scan, cell, case), results(eager.scan, cell, exact)
    assert all(value.isfinite().all() for value in ours)
    # An argument of size `scale` carries an error of scale * 2^-24, and steps hand it on.
    error = 64 * scale * 2**-24
    torch.testing.assert_close(ours[0].double(), theirs[0], rtol=error, atol=error)


def test_a_new_length_or_batch_makes_no_kernel():
    cell = CELLS["gru"]
    assert_agrees(cell, (2, 3, 9))
    made = engine.forward_kernel.cache_info().misses, engine.backward_kernel.cache_info().misses
    for shape in [(1, 3, 9), (5, 1, 9), (7, 40, 9)]:
        assert_agrees(cell, shape)
    again = engine.forward_kernel.cache_info().misses, engine.backward_kernel.cache_info().misses
    assert made == again


@pytest.mark.parametrize("hidden", [5, 16])
@pytest.mark.parametrize("batch", [1, 15, 17])
def test_nothing_is_written_beside_a_tensor(batch, hidden):
    """Every output lies between two guards."""
    cell = CELLS["adding_dag"]
    x, states, parameters, _ = make_case(cell, (2, batch, hidden), torch.float32)
    kernel = engine.forward_kernel(cell, hidden, hidden, engine.storage_of(x), DEVICE, True)
    tensors = engine._before(
        kernel.plan, x.detach(), {n: p.detach() for n, p in parameters.items()}
    )
    for node, state in zip(cell.states, states, strict=True):
        tensors[Argument("initial", node.name)] = state.detach()
    wholes = []
    for argument in kernel.plan.outputs():
        shape = (batch, hidden) if argument.role == "final" else (2, batch, hidden)
        size = int(np.prod(shape))
        wholes.append(torch.full((size + 128,), torch.nan))
        tensors[argument] = wholes[-1][64 : 64 + size].view(shape)
    kernel.run(tensors, x)
    for whole in wholes:
        assert whole[:64].isnan().all()
        assert whole[-64:].isnan().all()
        assert whole[64:-64].isfinite().all()


def test_inference_writes_the_output_alone():
    cell, (x, states, parameters, _) = (
        CELLS["lstm"],
        make_case(CELLS["lstm"], (3, 2, 4), torch.float32),
    )
    output, finals, saved = engine.forward(cell, x, states, parameters, save=False)
    whole = engine.forward(cell, x, states, parameters, save=True)
    kernel = engine.forward_kernel(cell, 3, 4, engine.storage_of(x), DEVICE, False)
    assert [a.name for a in kernel.plan.outputs()] == ["h", "h", "c"]
    assert (saved, len(whole[2])) == ([], len(saved_sequences(cell)))
    for ours, theirs in zip([output, *finals], [whole[0], *whole[1]], strict=True):
        assert torch.equal(ours, theirs)


def test_the_gradient_of_x_may_be_left_out():
    cell = CELLS["lstm"]
    x, states, parameters, seeds = make_case(cell, (3, 2, 4), torch.float32)
    output, _, saved = engine.forward(cell, x, states, parameters, save=True)
    args = (cell, x, states, parameters, output, saved, seeds)
    with_x, without = (engine.backward(*args, input_gradient=wanted) for wanted in (True, False))
    for ours, theirs in zip([*with_x[1], *with_x[2]], [*without[1], *without[2]], strict=True):
        assert torch.equal(ours, theirs)


def test_half_precision_keeps_float32_states():
    """float16 sequences and weights: off by a rounding of what is stored, however long it runs."""
    cell = CELLS["lstm"]
    expected = results(eager.scan, cell, make_case(cell, (20, 5, 24), torch.float64))
    found = results(triton_scan.scan, cell, make_case(cell, (20, 5, 24), torch.float16))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float16
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < 8 * torch.finfo(torch.float16).eps


def test_from_the_last_step_to_the_first():
    """The engine flips time; what it can't do yet it refuses by name."""
    cell = CELLS["lstm"]
    x, states, parameters, _ = make_case(cell, (3, 2, 7), torch.float32)
    states = tuple(states)
    with torch.no_grad():
        output, finals, saved = engine.forward(cell, x, states, parameters, True, None, True)
        expected, ends = eager.scan(cell, x.flip(0), states, parameters)
    torch.testing.assert_close(output, expected.flip(0), **TOLERANCE[torch.float32])
    torch.testing.assert_close(tuple(finals), ends, **TOLERANCE[torch.float32])
    seeds = [torch.ones_like(output), None, None]
    given = cell, x, states, parameters
    with torch.no_grad():
        mine = engine.backward(*given, output, saved, seeds, True, None, True)
        forwards = engine.forward(cell, x.flip(0), states, parameters, True)
        theirs = engine.backward(
            cell, x.flip(0), states, parameters, forwards[0], forwards[2], seeds, True
        )
    torch.testing.assert_close(mine[0], theirs[0].flip(0))
    with pytest.raises(BackendError, match="found all states: run it on the CPU"):
        engine.forward(*given, True, None, False, True)
    with pytest.raises(BackendError, match="found sequences of unequal lengths: pad them"):
        engine.forward(*given, True, torch.tensor([2, 2, 1]))
