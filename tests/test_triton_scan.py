"""The operator on the Triton engine: its interpreter takes the CPU engine's place."""

import sys
from types import SimpleNamespace

import pytest
import torch
from conftest import TOLERANCE
from test_scan import make_case, results
from torch.func import functional_call, grad, vmap

import fastcell
from fastcell import scan
from fastcell.backends import eager
from fastcell.backends.triton import engine
from fastcell.library import CELLS
from fastcell.nn import Recurrent

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def triton(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTCELL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(scan, "engine_of", lambda _: engine)


@pytest.mark.parametrize("name", ["lstm", "adding_dag", "lswm"])
def test_gradients_of_the_operator(name):
    cell = CELLS[name]
    expected = results(eager.scan, cell, make_case(cell, (3, 5, 7), torch.float64))
    found = results(scan.compiled_scan, cell, make_case(cell, (3, 5, 7), torch.float32))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("name", ["lstm", "peephole_lstm"])
def test_opcheck(name):
    cell = CELLS[name]
    x, states, parameters, _ = make_case(cell, (3, 2, 4), torch.float32)
    args = (x, list(states), list(parameters.values()), str(cell), True, None, False, False)
    torch.library.opcheck(torch.ops.fastcell.scan.default, args)


def test_vmap_over_stacked_modules():
    modules = [Recurrent(CELLS["gru"], 5, 4) for _ in range(2)]
    params, _ = torch.func.stack_module_state(modules)
    x = torch.randn(4, 3, 5)

    def loss(parameters, x):
        return functional_call(modules[0], parameters, (x,))[0].square().sum()

    grads = vmap(grad(loss), in_dims=(0, None))(params, x)
    for i, module in enumerate(modules):
        expected = torch.autograd.grad(module(x)[0].square().sum(), list(module.parameters()))
        for (name, _), theirs in zip(module.named_parameters(), expected, strict=True):
            torch.testing.assert_close(grads[name][i], theirs)


def test_a_module_trains():
    """Stacked, in both directions, batch first: every gradient is there."""
    module = Recurrent(CELLS["lstm"], 5, 4, num_layers=2, bidirectional=True, batch_first=True)
    exact = Recurrent(
        CELLS["lstm"], 5, 4, num_layers=2, bidirectional=True, batch_first=True, backend="eager"
    )
    exact.load_state_dict(module.state_dict())
    x = torch.randn(3, 6, 5)
    for each in (module, exact):
        each(x)[0].square().sum().backward()
    for ours, theirs in zip(module.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, **TOLERANCE[torch.float32])


def test_the_backend_follows_the_device():
    """A tensor on a GPU, as far as the choice looks."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = SimpleNamespace(device=torch.device("cuda"), dtype=dtype)
        assert scan.resolve("auto", x) is scan.resolve("triton", x) is scan.compiled_scan
    x = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float64)
    assert scan.resolve("auto", x) is eager.scan
    with pytest.raises(fastcell.BackendError, match=r"float16.* on cuda; found torch.float64"):
        scan.resolve("triton", x)


def test_triton_takes_no_tensor_of_the_cpu():
    module = Recurrent(CELLS["rnn"], 3, 4, backend="triton")
    with pytest.raises(fastcell.BackendError, match=r"on cuda; found torch\.float32 on cpu"):
        module(torch.ones(2, 3, 3))


def test_a_gpu_without_triton_is_told_how(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "triton", None)
    x = SimpleNamespace(is_cuda=True, device=torch.device("cuda"))
    with pytest.raises(fastcell.BackendError, match=r"pip install .fastcell\[gpu\]"):
        scan.engine_of(x)
