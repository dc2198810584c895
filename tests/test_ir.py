"""The cell as a value: parameters, sizes, replaced ops, equality."""

import dataclasses
import pickle

import pytest
import torch
from conftest import TOLERANCE
from hypothesis import given
from programs import texts

from fastcell import Cell, LanguageError, ShapeError, library, parse
from fastcell.backends import eager


@pytest.mark.parametrize(
    ("name", "count"),
    [("rnn", 8_256), ("lstm", 33_024), ("adding_dag", 33_024), ("gru", 24_832), ("mgu", 16_512)],
)
def test_parameter_count(name, count):
    assert library.CELLS[name].parameter_count(64, 64) == count


def test_parameters_have_names_and_shapes_in_the_order_of_the_text():
    cell = parse("""
def several(x, h, c):
    alpha = scalar(2)
    g = tanh(linear(x, h, c)) * alpha
    peep = vector(0)
    gate0 = gate(g, x, peep * c)
    return gate0, linear(g, bias=False)
""")
    assert list(cell.parameters(5, 7).items()) == [
        ("alpha", ()),
        ("g.weight", (7, 19)),
        ("g.bias", (7,)),
        ("peep", (7,)),
        ("gate0.weight", (7, 12)),
        ("gate0.bias", (7,)),
        ("c.weight", (7, 7)),
    ]
    assert cell.parameter_count(5, 7) == 1 + 7 * 19 + 7 + 7 * 12 + 7 + 7 + 49


def test_only_what_reaches_an_output_is_counted():
    used = parse("def f(x, h):\n    g = tanh(linear(x, h))\n    return g")
    spare = "def f(x, h):\n    g = tanh(linear(x, h))\n    s = scalar(1) * linear(g)\n    return g"
    assert parse(spare) == used


@given(texts())
def test_each_parameter_is_one_node(text):
    cell = parse(text)
    names = [node.param for node in cell.nodes if node.param]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in cell.parameters(6, 6)} == set(names)


@pytest.mark.parametrize("size", [0, -1, 2.5, "64", None])
@pytest.mark.parametrize("label", ["input_size", "hidden_size"])
def test_sizes_are_positive_whole_numbers(label, size):
    sizes = {"input_size": 4, "hidden_size": 4} | {label: size}
    with pytest.raises(ShapeError) as caught:
        library.lstm.parameters(**sizes)
    assert str(caught.value) == f"{label}: expected a whole number >= 1, found {size!r}"


def test_elementwise_use_of_the_input_ties_its_size():
    with pytest.raises(ShapeError) as caught:
        library.lswm.parameters(3, 4)
    assert str(caught.value) == (
        "cell 'lswm' uses x elementwise, so input_size must equal hidden_size; found 3 and 4:"
        " project the input first, for instance with nn.Linear(3, 4)"
    )


@pytest.mark.parametrize(
    ("returned", "elementwise"),
    [
        ("x * h", True),
        ("h - linear(tanh(x))", True),
        ("rmsnorm(x) * h", True),
        ("linear(x, h)", False),
        ("gate(x, h)", False),
        ("gate(h, x)", True),
    ],
)
def test_what_is_elementwise_use(returned, elementwise):
    assert parse(f"def f(x, h): return {returned}").uses_input_elementwise is elementwise


def test_an_input_returned_as_a_state_is_elementwise_use():
    assert parse("def f(x, h, _c): return tanh(h), x").uses_input_elementwise


def test_replace_swaps_ops_at_once():
    cell = parse("def f(x, h): return tanh(x) + sigmoid(h)")
    swapped = cell.replace(tanh="sigmoid", sigmoid="tanh")
    assert str(swapped) == "def f(x, h):\n    return sigmoid(x) + tanh(h)"
    assert swapped.replace(tanh="sigmoid", sigmoid="tanh") == cell


def test_replace_merges_what_becomes_the_same():
    cell = parse("def f(x, h):\n    a = tanh(x)\n    b = sigmoid(x)\n    return a * b + h")
    merged = cell.replace(tanh="sigmoid")
    assert str(merged) == "def f(x, h):\n    a = sigmoid(x)\n    return a * a + h"
    assert parse(str(merged)) == merged


def test_the_exponent_free_variant_keeps_parameters(cell):
    variant = cell.replace(sigmoid="softsign_scaled", tanh="softsign")
    assert not {"sigmoid", "tanh"} & {node.op for node in variant.nodes}
    assert variant.parameters(8, 8) == cell.parameters(8, 8)
    assert parse(str(variant)) == variant


def test_replace_computes_what_it_says():
    torch.manual_seed(0)
    cell = parse("def f(x, h): return tanh(linear(x, h))").replace(tanh="gelu")
    x, h, weight, bias = (torch.randn(shape).double() for shape in ((1, 2, 3), (2, 3), (3, 6), 3))
    outputs, _ = eager.scan(cell, x, (h,), {"h.weight": weight, "h.bias": bias})
    expected = torch.nn.functional.gelu(torch.cat([x[0], h], -1) @ weight.T + bias)
    torch.testing.assert_close(outputs[0], expected, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("names", [{"tanh": "nothing"}, {"linear": "tanh"}, {"tanh": "rsqrt"}])
def test_replace_knows_unary_ops_only(names):
    wrong = next(each for each in (*names, *names.values()) if each != "tanh")
    with pytest.raises(LanguageError) as caught:
        library.lstm.replace(**names)
    assert str(caught.value) == (
        f"line 1, column 1: found '{wrong}' in replace, expected one of abs, exp, gelu, neg, relu,"
        " sigmoid, silu, softsign, softsign_scaled, tanh"
    )


def test_a_cell_is_a_frozen_value(cell):
    twin = pickle.loads(pickle.dumps(cell))
    assert twin == cell
    assert hash(twin) == hash(cell)
    assert len({twin, cell}) == 1
    assert twin.key == cell.key
    with pytest.raises(dataclasses.FrozenInstanceError):
        cell.name = "other"


def test_cells_differ_by_what_they_say():
    one = parse("def f(x, h): return tanh(linear(x, h))")
    for other in (
        "def g(x, h): return tanh(linear(x, h))",
        "def f(x, h): return tanh(linear(h, x))",
        "def f(x, h): return tanh(linear(x, h, bias=False))",
        "def f(x, h):\n    g = tanh(linear(x, h))\n    return g",
    ):
        assert parse(other) != one


def test_sources_and_states():
    cell: Cell = library.lstm
    assert [node.name for node in cell.sources] == ["x", "h", "c"]
    assert [node.name for node in cell.states] == ["h", "c"]
    assert len(cell.outputs) == 2


def test_nodes_come_after_their_arguments(cell):
    for index, node in enumerate(cell.nodes):
        assert all(arg < index for arg in node.args)
