"""The operator `fastcell::scan` against eager float64, and its manners under torch's transforms."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import TOLERANCE
from programs import random_text
from torch.func import functional_call, grad, vmap

import fastcell
from fastcell import space
from fastcell.backends import eager
from fastcell.library import CELLS
from fastcell.nn import Recurrent
from fastcell.scan import compiled_scan

SHAPES = [(1, 1, 1), (2, 5, 7), (48, 33, 7), (2, 5, 64), (5, 33, 91), (2, 1, 105), (3, 5, 130)]
"""(T, B, H), none friendly; I is H where the cell asks for it, else 3."""


def make_case(cell, shape, dtype, seed=0):
    """Inputs and seeds of every returned value, the same numbers in any dtype."""
    steps, batch, hidden = shape
    input_size = hidden if cell.uses_input_elementwise else 3
    rng = np.random.default_rng(seed)

    def draw(*size, scale=1.0):
        value = rng.standard_normal(size) * scale
        return torch.tensor(value, dtype=torch.float64).to(dtype).requires_grad_()

    x = draw(steps, batch, input_size)
    states = tuple(draw(batch, hidden) for _ in cell.states)
    shapes = cell.parameters(input_size, hidden)
    parameters = {
        name: draw(*size, scale=size[-1] ** -0.5 if size else 1.0) for name, size in shapes.items()
    }
    seeds = [draw(steps, batch, hidden), *(draw(batch, hidden) for _ in states)]
    return x, states, parameters, [seed.detach() for seed in seeds]


def results(scan, cell, case):
    """Outputs, finals, then the gradients of x, states and parameters."""
    x, states, parameters, seeds = case
    output, finals = scan(cell, x, states, parameters)
    values = [output, *finals]
    leaves = [x, *states, *parameters.values()]
    grads = torch.autograd.grad(values, leaves, seeds, materialize_grads=True)
    return [*(value.detach() for value in values), *grads]


def assert_agrees(cell, shape, dtype, seed=0):
    expected = results(eager.scan, cell, make_case(cell, shape, torch.float64, seed))
    found = results(compiled_scan, cell, make_case(cell, shape, dtype, seed))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", sorted(CELLS))
def test_library_cells_match_eager(name, shape, dtype):
    assert_agrees(CELLS[name], shape, dtype)


def test_random_space_cells_match_eager():
    for number, code in enumerate(space.sample(48, seed=5)):
        assert_agrees(space.decode(int(code)), (3, 2, 7), torch.float64, seed=number)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_match_eager(seed):
    """x elementwise or not, norms, vectors, several states: whatever the language has."""
    cell = fastcell.parse(random_text(seed, size=14))
    assert_agrees(cell, (4, 3, 7), torch.float64, seed)


@pytest.mark.slow
def test_500_random_space_cells_match_eager():
    for number, code in enumerate(space.sample(500, seed=6)):
        cell = space.decode(int(code))
        assert_as_exact_as_eager(cell, torch.float64, number)
        assert_as_exact_as_eager(cell, torch.float32, number)


def assert_as_exact_as_eager(cell, dtype, seed):
    """A cell that explodes multiplies rounding: no more of it than eager has in the same dtype.

    Both add the same terms, in other orders. An error counts beside the largest element, which
    the terms of a small one may be as large as; a few times the other's error is chance.
    """
    case = make_case(cell, (5, 3, 20), dtype, seed)
    exact = results(eager.scan, cell, doubled(case))
    found, same = (results(scan, cell, case) for scan in (compiled_scan, eager.scan))
    for ours, theirs, value in zip(found, same, exact, strict=True):
        allowed = 4 * (theirs.double() - value).abs().max()
        allowed += TOLERANCE[dtype]["rtol"] * value.abs().max() + TOLERANCE[dtype]["atol"]
        assert (ours.double() - value).abs().max() <= allowed


def doubled(case):
    """The same numbers in float64."""
    x, states, parameters, seeds = case

    def double(value):
        return value.detach().double().requires_grad_()

    return (
        double(x),
        tuple(map(double, states)),
        {name: double(value) for name, value in parameters.items()},
        [seed.double() for seed in seeds],
    )


def test_thread_counts_agree_and_repeat():
    cell, case = CELLS["lstm"], make_case(CELLS["lstm"], (7, 33, 24), torch.float32)
    threads = torch.get_num_threads()
    runs = []
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            runs.append(results(compiled_scan, cell, case))
    finally:
        torch.set_num_threads(threads)
    for one, two, again in zip(*runs, strict=True):
        torch.testing.assert_close(one, two, **TOLERANCE[torch.float32])
        assert torch.equal(two, again)


def _module(name="lstm", **options):
    return Recurrent(CELLS[name], 5, 4, backend="cpu", dtype=torch.float64, **options)


def test_other_instruction_sets_agree():
    """Each in its own process, since the choice is made once."""
    from fastcell import _C

    program = (
        "import torch; from fastcell.nn import Recurrent; from fastcell.library import lstm;"
        "torch.manual_seed(0); m = Recurrent(lstm, 5, 33, backend='cpu', dtype=torch.float64);"
        "y, _ = m(torch.ones(4, 7, 5, dtype=torch.float64)); y.sum().backward();"
        "print(*[f'{p.grad.abs().sum():.9e}' for p in m.parameters()], f'{y.sum():.9e}')"
    )
    outputs = {
        isa: subprocess.run(
            [sys.executable, "-c", program],
            env={"FASTCELL_ISA": isa, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for isa in _C.isas()
    }
    assert len(set(outputs.values())) == 1, outputs


@pytest.mark.parametrize("name", sorted(CELLS))
def test_gradcheck(name):
    cell = CELLS[name]
    x, states, parameters, _ = make_case(cell, (3, 2, 3), torch.float64)
    names, values = zip(*parameters.items(), strict=True)

    def run(x, *rest):
        given = dict(zip(names, rest[len(states) :], strict=True))
        output, finals = compiled_scan(cell, x, rest[: len(states)], given)
        return (output, *finals)

    assert torch.autograd.gradcheck(run, (x, *states, *values))


def test_opcheck():
    cell = CELLS["lstm"]
    x, states, parameters, _ = make_case(cell, (3, 2, 4), torch.float64)
    values = list(parameters.values())
    for save in (True, False):
        args = (x, list(states), values, str(cell), save, None, False, False)
        if not save:
            args = (x.detach(), *[[t.detach() for t in each] for each in args[1:3]], *args[3:])
        torch.library.opcheck(torch.ops.fastcell.scan.default, args)


def test_awkward_memory():
    """Transposed, expanded and sliced inputs, and gradients that are expanded zeros-stride."""
    cell = CELLS["gru"]
    base = torch.randn(6, 10, 4, 2, dtype=torch.float64)
    states = (torch.randn(1, 4, dtype=torch.float64).expand(6, 4).requires_grad_(),)
    parameters = {
        name: torch.randn(shape, dtype=torch.float64).requires_grad_()
        for name, shape in cell.parameters(4, 4).items()
    }
    for x in (base[..., 0].transpose(0, 1), base[::2, 0, :, 1].expand(5, 3, 4).transpose(0, 1)):
        states = (torch.randn(1, 4, dtype=torch.float64).expand(x.shape[1], 4).requires_grad_(),)
        leaves = [states[0], *parameters.values()]
        grads = []
        for scan in (eager.scan, compiled_scan):
            output, _ = scan(cell, x, states, parameters)
            grads.append(torch.autograd.grad(output.sum(), leaves))
        for ours, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("shape", [(0, 3, 5), (4, 0, 5)], ids=str)
def test_no_steps_and_no_rows(shape):
    assert_agrees(CELLS["lstm"], shape, torch.float64)


def test_states_that_change_places_and_constant_states():
    texts = [
        "def swap(x, a, b):\n    return b, a + tanh(linear(x, b))",
        "def late(x, a, b, c):\n    return tanh(linear(x, a)), a, b + c",
        "def learned(x, h, c):\n    v = vector(0.5)\n    return v * linear(x, c), v + 0 * h",
        "def plain(x, h):\n    return x + 0.5 * h",
        "def linear_only(x, h, c):\n    return linear(x, c, bias=False), linear(h)",
        "def twice(x, h):\n    return tanh(linear(h, h) + linear(x)) / (1 + exp(linear(x)))",
        "def rows(x, h):\n    v = vector(1)\n    return tanh(linear(v, h) + linear(x))",
    ]
    for text in texts:
        assert_agrees(fastcell.parse(text), (5, 3, 7), torch.float64)


def test_inference_saves_nothing():
    cell, (x, states, parameters, _) = (
        CELLS["lstm"],
        make_case(CELLS["lstm"], (3, 2, 4), torch.float32),
    )
    values = [p.detach() for p in parameters.values()]
    plain = [s.detach() for s in states]
    results = torch.ops.fastcell.scan(
        x.detach(), plain, values, str(cell), False, None, False, False
    )
    assert len(results) == 1 + len(states)


def test_compile_fullgraph_does_not_unroll():
    module = _module()
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(module, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x)[0], module(x)[0])
    assert sum("scan" in str(node.target) for node in graphs[0].graph.nodes) == 1


def test_aot_training_step_matches():
    module = _module()
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    expected = torch.autograd.grad(module(x)[0].sum(), list(module.parameters()))
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(x)[0].sum(), list(module.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_export():
    module = _module()
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    program = torch.export.export(module, (x,))
    torch.testing.assert_close(program.module()(x)[0], module(x)[0])


def test_func_grad_and_vmap_over_stacked_modules():
    modules = [_module() for _ in range(3)]
    params, _ = torch.func.stack_module_state(modules)
    x = torch.randn(7, 3, 5, dtype=torch.float64)

    def loss(parameters, x):
        return functional_call(modules[0], parameters, (x,))[0].square().sum()

    grads = vmap(grad(loss), in_dims=(0, None))(params, x)
    for i, module in enumerate(modules):
        expected = torch.autograd.grad(module(x)[0].square().sum(), list(module.parameters()))
        for (name, _), theirs in zip(module.named_parameters(), expected, strict=True):
            torch.testing.assert_close(grads[name][i], theirs)


def test_vmap_over_inputs():
    module = _module()
    x = torch.randn(4, 7, 3, 5, dtype=torch.float64)
    together = vmap(lambda each: module(each)[0])(x)
    torch.testing.assert_close(together, torch.stack([module(each)[0] for each in x]))


def test_checkpoint():
    module = _module()
    x = torch.randn(7, 3, 5, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(module(x)[0].sum(), x)
    output, _ = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
    (found,) = torch.autograd.grad(output.sum(), x)
    torch.testing.assert_close(found, expected)


def test_autocast_runs_in_float32():
    module = Recurrent(CELLS["lstm"], 5, 4, backend="cpu")
    x = torch.randn(7, 3, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = module(x.bfloat16())
    assert output.dtype == torch.float32


def test_second_derivative_is_right_or_refused():
    module = _module()
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(fastcell.BackendError, match="no second derivative"):
        gradient.sum().backward()


@pytest.mark.parametrize("part", ["parameter", "state"])
@pytest.mark.parametrize("change", [torch.Tensor.double, lambda t: t[:1], lambda t: t.to("meta")])
def test_tensors_that_do_not_fit_are_refused(part, change):
    """The engine gets bare addresses, so nothing wrong may reach it."""
    x, states, parameters, _ = make_case(CELLS["lstm"], (3, 2, 4), torch.float32)
    if part == "state":
        states = (change(states[0]), states[1])
    else:
        parameters["f.weight"] = change(parameters["f.weight"])
    with pytest.raises(fastcell.ShapeError, match=r"expected .*found"):
        compiled_scan(CELLS["lstm"], x, states, parameters)


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_autocast_trains_whatever_the_dtypes(x_dtype, dtype):
    module = Recurrent(CELLS["lstm"], 5, 4, backend="cpu", dtype=dtype)
    x = torch.randn(7, 3, 5).to(x_dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = module(x)
    output.sum().backward()
    exact = Recurrent(CELLS["lstm"], 5, 4, backend="eager", dtype=torch.float64)
    exact.load_state_dict(module.state_dict())
    given = x.detach().double().requires_grad_()
    exact(given)[0].sum().backward()
    torch.testing.assert_close(x.grad.double(), given.grad, rtol=2e-2, atol=2e-2)
    for ours, theirs in zip(module.parameters(), exact.parameters(), strict=True):
        assert ours.grad.dtype == dtype
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2e-2, atol=5e-2)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch's own, in its jvp
def test_forward_mode_is_refused():
    module = _module()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    with pytest.raises(fastcell.BackendError, match="no forward-mode derivative"):
        torch.func.jvp(lambda each: module(each)[0], (x,), (x,))
