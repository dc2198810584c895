"""A cell written out: golden copies, and the places where parentheses and names matter."""

import pytest

from fastcell import parse
from fastcell.library import CELLS
from fastcell.text import format_number


@pytest.mark.parametrize("name", ["adding_dag", "lswm"])
def test_golden(name, golden):
    cell = CELLS[name]
    golden(f"{name}.txt", str(cell))
    golden(f"{name}.tex", cell.to_latex())
    golden(f"{name}.dot", cell.to_dot())


@pytest.mark.parametrize(
    "returned",
    [
        "x - (h - x)",
        "x - h - x",
        "x / (h * x)",
        "x / h * x",
        "x / (h / x)",
        "-(x + h)",
        "-x * h",
        "-(x * h)",
        "--x + h",
        "x - -h",
        "x * -2 + h",
        "(x + h) * 0.5",
        "x + (h + x)",
        "1 - x / h",
        "x * 1e-07 + h",
        "x * 1e+300 + h",
        "x * 1000000 + h",
        "gate(x, h, 2)",
        "gate(x, h)",
        "x * sigmoid(linear(h))",
        "sigmoid(linear(x, h, bias=False)) * h",
        "scalar(2) * x + vector(-0.5) + h",
        "linear(x + h, h * 2, bias=False)",
        "layernorm(x) + rmsnorm(h)",
    ],
)
def test_text_is_as_short_as_it_can_be(returned):
    text = f"def f(x, h):\n    return {returned}"
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("(x) + ((h))", "x + h"),
        ("(x + h) + x", "x + h + x"),
        ("x * (-2) + h", "x * -2 + h"),
        ("neg(x) + h", "-x + h"),
        ("sigmoid(linear(x, h)) * h", "gate(x, h, h)"),
        ("2.0 * x + h * 1e2", "2 * x + h * 100"),
        ("(3 - 0.25) * x + h", "2.75 * x + h"),
    ],
)
def test_text_has_one_spelling(written, text):
    cell = parse(f"def f(x, h): return {written}")
    assert str(cell) == f"def f(x, h):\n    return {text}"


def test_a_value_named_twice_keeps_its_first_name():
    cell = parse("def f(x, h):\n    a = x + h\n    b = x + h\n    c = a\n    return b * c")
    assert str(cell) == "def f(x, h):\n    a = x + h\n    return a * a"


def test_a_value_named_after_its_use_is_written_before_it():
    cell = parse("def f(x, h):\n    a = tanh(x + h)\n    b = x + h\n    return a * b")
    assert str(cell) == "def f(x, h):\n    b = x + h\n    a = tanh(b)\n    return a * b"


def test_a_named_factor_is_not_written_as_a_gate():
    cell = parse("def f(x, h):\n    s = sigmoid(linear(x, h))\n    return s * h")
    assert str(cell) == "def f(x, h):\n    s = sigmoid(linear(x, h))\n    return s * h"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (-3.0, "-3"),
        (0.1, "0.1"),
        (1e15, "1000000000000000"),
        (1e16, "1e+16"),
        (1e-300, "1e-300"),
        (1 / 3, "0.3333333333333333"),
    ],
)
def test_numbers_come_back_exactly(value, text):
    assert format_number(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("returned", "latex"),
    [
        ("x / (h + 1)", r"\frac{x_t}{h_{t-1} + 1}"),
        ("-(x + h) * -2", r"-(x_t + h_{t-1}) \odot -2"),
        ("x - (h - x)", r"x_t - (h_{t-1} - x_t)"),
        ("abs(x) + exp(h)", r"\left|x_t\right| + \exp(h_{t-1})"),
        ("layernorm(x) + rmsnorm(h)", r"\operatorname{LN}(x_t) + \operatorname{RMS}(h_{t-1})"),
        ("linear(x, bias=False) + h", r"W_{h} [x_t] + h_{t-1}"),
        ("linear(x) * h", r"(W_{h} [x_t] + b_{h}) \odot h_{t-1}"),
        ("gate(x, h)", r"\sigma(W_{h} [x_t] + b_{h}) \odot h_{t-1}"),
        ("scalar(2) * x + h", r"h \odot x_t + h_{t-1}"),
    ],
)
def test_equations(returned, latex):
    cell = parse(f"def f(x, h): return {returned}")
    assert cell.to_latex() == f"\\begin{{aligned}}\nh_t &= {latex}\n\\end{{aligned}}"


def test_equations_spell_long_names_upright_and_parameters_without_time():
    cell = parse("def f(x_in, h):\n    my_gain = vector(1)\n    return x_in * my_gain + h")
    assert r"h_t &= \mathrm{x\_in}_t \odot \mathrm{my\_gain} + h_{t-1}" in cell.to_latex()
    assert r"\mathrm{my\_gain} &=" not in cell.to_latex()


def test_the_graph_quotes_its_name():
    # `node`, `edge` and `graph` are words of Graphviz.
    assert parse("def node(x, h): return x + h").to_dot().startswith('digraph "node" {\n')
