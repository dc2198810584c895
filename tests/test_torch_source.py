"""The torch file of a cell, run in a namespace of its own, against the eager reference."""

import warnings

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import TOLERANCE
from torch import nn

import fastcell
from fastcell import Recurrent, library, parameters, space
from fastcell.node import Node
from fastcell.ops import FUNCTIONS
from fastcell.torch_source import attribute

SHAPES = [(1, 1, 1, 1), (2, 5, 7, 7), (7, 3, 4, 6)]
"""T, B, I, H; I becomes H where the cell asks for it."""


def written(cell):
    """The class over sequences that the cell's file defines; the file sees torch alone."""
    namespace = {"__name__": "written"}
    exec(compile(cell.to_torch(), f"{cell.name}.py", "exec"), namespace)
    (layers,) = (value for name, value in namespace.items() if name.endswith("Layers"))
    return layers


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def check(cell, shape=(3, 2, 4, 4), layers=1):
    """Output, states and every gradient equal those of Recurrent, whose weights load."""
    time, batch, width, hidden = shape
    width = hidden if cell.uses_input_elementwise else width
    torch.manual_seed(3)
    options = {"backend": "eager", "dtype": torch.float64}
    ours = Recurrent(cell, width, hidden, layers, **options)
    theirs = written(cell)(width, hidden, layers).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(time, batch, width, dtype=torch.float64, requires_grad=True)
    initial = [torch.randn(layers, batch, hidden, dtype=torch.float64) for _ in cell.states]
    for state in (None, tuple(initial) if len(initial) > 1 else initial[0]):
        results = [
            [output, *as_tuple(final)] for output, final in (ours(x, state), theirs(x, state))
        ]
        torch.testing.assert_close(results[1], results[0], **TOLERANCE[x.dtype])
        if not results[0][0].requires_grad:
            continue
        mix = [torch.randn_like(each) for each in results[0]]
        gradients = [
            torch.autograd.grad(result, [x, *module.parameters()], mix, materialize_grads=True)
            for module, result in zip((ours, theirs), results, strict=True)
        ]
        torch.testing.assert_close(gradients[1], gradients[0], **TOLERANCE[x.dtype])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_the_reference(cell, shape):
    check(cell, shape)


def test_layers(cell):
    check(cell, (4, 3, 5, 5), layers=3)


def test_random_cells_of_the_space():
    for code in space.sample(24, seed=5):
        check(space.decode(int(code)))


def test_the_same_seed_draws_the_same_weights(cell):
    torch.manual_seed(1)
    ours = Recurrent(cell, 4, 4)
    torch.manual_seed(1)
    theirs = written(cell)(4, 4)
    torch.testing.assert_close(theirs.state_dict(), ours.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function(name):
    """Of a row, of a number, of a parameter, and within another expression."""
    check(fastcell.parse(f"def f(x, h):\n    return {name}(linear(x, h)) - {name}(2 * h) / 3"))
    if name not in ("layernorm", "rmsnorm"):
        check(
            fastcell.parse(f"""
def f(x, h):
    a = scalar(0.5)
    return {name}(0.25) * {name}({name}(-2)) + {name}(a) - h * {name}(a * 2 + {name}(x))
""")
        )


@pytest.mark.parametrize("text", [
    "def f(_x, _h):\n    v = vector(0.5)\n    return v",
    "def f(x, _h):\n    v = vector(0.5)\n    return linear(v, x, v) + linear(v * 2, bias=False)",
    "def f(_x, h, c):\n    v = vector(2)\n    return rmsnorm(v) + 1, layernorm(linear(-v)) - h * c",
    "def f(x, h, _c):\n    return x, h",
    "def f(x, h):\n    return linear(x, x) - (h - (x - 2)) / (1 - (-3 - h * h)) * -(h + 1)",
    "def f(_x, h):\n    return -h * -2 - -h",
])  # fmt: skip
def test_awkward_cells(text):
    check(fastcell.parse(text))


AWKWARD = """
def {}(x, h):
    {} = linear(x, h)
    {} = scalar(0.5)
    return {} * {} + h
"""
NAMES = ["forward", "type", "half", "self", "torch", "functional", "nn", "Tensor", "super", "layer",
         "training", "_parameters", "__init__", "weight", "step", "hidden_size", "x_t"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_works(name):
    for linear, scalar in ((name, "a"), ("a", name), (name, f"{name}_"), (f"{name}_", name)):
        check(fastcell.parse(AWKWARD.format(name, linear, scalar, scalar, linear)))


@pytest.mark.parametrize("name", ["torch", "self", "functional"])
def test_any_name_of_a_source_works(name):
    check(fastcell.parse(f"def f({name}, {name}_):\n    return tanh(linear({name}, {name}_))"))


def test_attributes_are_those_of_recurrent():
    """Of every name that nn.Module has, with underscores too, and of others."""
    names = [*dir(nn.Module()), *parameters._TAKEN, "g", "g_", "_gate", "To"]
    for name in (f"{name}{end}" for name in names for end in ("", "_", "__")):
        assert attribute(name) == parameters._attribute(Node("linear", param=name))


def test_width_is_checked():
    with pytest.raises(ValueError, match="input_size: expected hidden_size, 4, found 3"):
        written(library.lswm)(3, 4)


@pytest.mark.parametrize("name", ["lswm", "layernorm_lstm"])
def test_golden(name, golden):
    golden(f"{name}_torch.py.txt", library.CELLS[name].to_torch().rstrip("\n"))


def test_it_imports_torch_alone(cell):
    lines = cell.to_torch().splitlines()
    imports = [line for line in lines if line.startswith(("import", "from"))]
    assert imports[:2] == ["import torch", "from torch import Tensor, nn"]
    assert imports[2:] in ([], ["from torch.nn import functional"])
    assert max(map(len, lines)) <= 100


def export(module, x, path):
    """ONNX with any batch."""
    batch = torch.export.Dim("batch", min=1, max=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        torch.onnx.export(
            module, (x,), path, dynamo=True, dynamic_shapes=({1: batch},), verbose=False
        )


QUICK = ("lstm", "layernorm_lstm", "lswm")
EXPORTED = [
    pytest.param(cell, id=name, marks=[pytest.mark.slow] * (name not in QUICK))
    for name, cell in library.CELLS.items()
]


@pytest.mark.parametrize("cell", EXPORTED)
def test_onnx_with_a_dynamic_batch(cell, tmp_path):
    torch.manual_seed(2)
    module = written(cell)(4, 4, 2).eval()
    path = str(tmp_path / "cell.onnx")
    export(module, torch.randn(3, 5, 4), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert given.shape[0] == 3
    assert isinstance(given.shape[1], str)
    for batch in (1, 3, 17):
        x = torch.randn(3, batch, 4)
        with torch.no_grad():
            output, state = module(x)
        found = session.run(None, {given.name: x.numpy()})
        for actual, expected in zip(found, [output, *as_tuple(state)], strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), **TOLERANCE[torch.float32])
