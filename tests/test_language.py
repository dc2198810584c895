"""The language: what its texts mean, what it survives, and that it runs nothing."""

import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import texts
from test_language_errors import step

import fastcell
from fastcell import Cell, LanguageError, parse
from fastcell.language import MAX_CHARACTERS, MAX_DEPTH
from fastcell.library import CELLS


@given(texts())
def test_the_text_of_a_cell_parses_to_the_same_cell(text):
    cell = parse(text)
    assert parse(str(cell)) == cell
    assert str(parse(str(cell))) == str(cell)


@given(texts(), st.data())
def test_a_cell_with_ops_replaced_has_a_text_too(text, data):
    names = st.sampled_from(["sigmoid", "tanh", "softsign", "gelu", "exp", "abs"])
    cell = parse(text).replace(**data.draw(st.dictionaries(names, names, max_size=3)))
    assert parse(str(cell)) == cell


@given(texts())
def test_every_cell_has_equations_and_a_graph(text):
    cell = parse(text)
    assert cell.to_latex().count(r"\begin{aligned}") == 1
    assert cell.to_dot().count("doublecircle") == len(cell.states)


def test_library_round_trip():
    for cell in CELLS.values():
        assert parse(str(cell)) == cell


# Nothing but LanguageError, and nothing run

SCRAPS = [
    *["(", ")", ",", "=", "\n", "\n    ", "\t", "\0", "'", '"""', "\\", "#", ":", ":=", "*", "**"],
    *["1e999", "0", "1j", "True", "None", "lambda: ", "return ", "def ", "@", "await ", "f'{x}'"],
    *["linear(", "gate(", "scalar(h)", "tanh", ".real", "[0]", "é", "\ud800", " if x else ", "x"],
]


@st.composite
def mutated(draw):
    """A valid program with pieces cut out and scraps put in."""
    text = draw(texts(max_size=8))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        stop = start + draw(st.integers(0, 3))
        text = text[:start] + draw(st.sampled_from(["", *SCRAPS])) + text[stop:]
    return text


@given(st.one_of(mutated(), st.text(), st.lists(st.sampled_from(SCRAPS)).map("".join)))
def test_any_text_is_a_cell_or_a_language_error(text):
    with suppress(LanguageError):
        cell = parse(text)
        assert parse(str(cell)) == cell


@pytest.mark.parametrize(
    "text",
    [
        "open({path!r}, 'w')",
        "def f(x, h=open({path!r}, 'w')): return x + h",
        "def f(x: open({path!r}, 'w'), h): return x + h",
        "@open({path!r}, 'w')\ndef f(x, h): return x + h",
        "def f(x, h):\n    open({path!r}, 'w')\n    return x + h",
        "def f(x, h): return x + open({path!r}, 'w')",
        "def f(x, h): return x + [h for h in open({path!r}, 'w')]",
    ],
)
def test_text_is_never_executed(text, tmp_path):
    path = tmp_path / "touched"
    with suppress(LanguageError):
        parse(text.format(path=str(path)))
    assert not path.exists()


# Large texts

DEEP = [
    step("-" * 50_000 + "h"),
    step("(" * 10_000 + "h" + ")" * 10_000),
    step("x" + " + h" * 20_000),
    step("tanh(" * 10_000 + "h" + ")" * 10_000),
    step("h.a" + ".a" * 40_000),
    "@" + "-" * 400 + "x\ndef f(x, h): return x + h",
    "def f(x, h=" + "-" * 400 + "x): return x + h",
    step(f"{'y' + '[0]' * 400} = x; h"),
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_deep_nesting_is_a_language_error(text):
    with pytest.raises(LanguageError):
        parse(text)


def test_nesting_has_a_limit_within_which_all_works():
    def nested(depth):
        return step("gate(" * depth + "h" + ", x, x)" * depth)

    cell = parse(nested(MAX_DEPTH - 1))
    assert parse(str(cell)) == cell
    assert cell.to_latex()
    with pytest.raises(LanguageError) as caught:
        parse(nested(MAX_DEPTH))
    assert caught.value.found == f"an expression nested more than {MAX_DEPTH} deep"
    assert caught.value.expected == "shorter expressions: name the parts"


def test_a_megabyte_of_text():
    with pytest.raises(LanguageError) as caught:
        parse(step("h") + " " * 1_000_000)
    expected = f"expected at most {MAX_CHARACTERS:,}: a cell is one step of a network"
    assert str(caught.value) == f"line 1, column 1: found 1,000,025 characters, {expected}"


def test_a_long_cell_of_many_statements_parses():
    lines = [f"v{n} = v{n - 1} + x" if n else "v0 = h + x" for n in range(3_000)]
    cell = parse(step("; ".join([*lines, "v2999"])))
    assert parse(str(cell)) == cell


def test_null_bytes_and_lone_surrogates():
    # Python's versions differ in how they refuse these.
    for text in ("def f(x, h): return x\0", "def f(x, h): return x + '\ud800'"):
        with pytest.raises(LanguageError, match="line 1, column 1: found"):
            parse(text)


@pytest.mark.parametrize("text", [None, b"def f(x, h): return x", 5, ["def f"]])
def test_text_is_a_string(text):
    message = f"line 1, column 1: found {type(text).__name__}, expected a string"
    with pytest.raises(LanguageError, match=message):
        parse(text)


# What the text means


def ops(text):
    return [node.op for node in parse(text).nodes]


def test_the_same_expression_is_one_value():
    assert ops(step("tanh(x + h) * (x + h)")).count("add") == 1


def test_every_written_linear_is_a_parameter_of_its_own():
    cell = parse(step("linear(x, h) + linear(x, h)"))
    assert list(cell.parameters(3, 3)) == ["h.weight", "h.bias", "h_2.weight", "h_2.bias"]


def test_a_linear_named_once_and_used_twice_is_shared():
    assert ops(step("g = linear(x, h); tanh(g) + sigmoid(g)")).count("linear") == 1


def test_gate_is_sigmoid_of_linear_times_value():
    short, long = step("g = gate(x, h, x); g"), step("g = sigmoid(linear(x, h)) * x; g")
    assert parse(short) == parse(long)


def test_numbers_fold():
    cell = parse(step("x * (1 / 4 - -2 * 3) + -(2) + neg(1) + h"))
    assert sorted(node.value for node in cell.nodes if node.op == "const") == [-2, -1, 6.25]
    assert "neg" not in ops(str(cell))


def test_what_reaches_no_output_is_dropped():
    cell = parse(step("unused = linear(x, h); tanh(x) + h"))
    assert "linear" not in [node.op for node in cell.nodes]
    assert cell.parameter_count(4, 4) == 0


def test_docstring_comments_and_indentation_are_free():
    text = """
        @fastcell.cell
        def f(x, h):
            "A docstring."
            # A comment.
            return (
                x + h
            )
    """
    assert parse(text) == parse("def f(x, h): return x + h")


def test_an_underscore_marks_a_source_that_is_not_read():
    cell = parse("def f(_x, h, _c): return tanh(h), h")
    assert str(cell) == "def f(_x, h, _c):\n    return tanh(h), h"


def test_warnings_of_pythons_parser_stay_inside():
    with pytest.raises(LanguageError, match="expected a number"):
        parse(step(r"'\d' + h"))


# The decorator


def test_the_decorator_reads_the_source_and_calls_nothing():
    @fastcell.cell
    def leaky(x, h):
        g = tanh(linear(x, h))  # noqa: F821
        return 0.9 * h + 0.1 * g

    assert isinstance(leaky, Cell)
    assert leaky == parse(
        "def leaky(x, h):\n    g = tanh(linear(x, h))\n    return 0.9 * h + 0.1 * g"
    )


def test_the_decorators_errors_have_the_line_of_the_file():
    def wrong(x, h):
        y = tanh(x)  # noqa: F821
        return y + z  # noqa: F821

    with pytest.raises(LanguageError) as caught:
        fastcell.cell(wrong)
    assert caught.value.line == wrong.__code__.co_firstlineno + 2
    assert caught.value.found == "unknown name 'z'"


@pytest.mark.parametrize("wrong", [print, eval("lambda x, h: x + h"), 5, None])
def test_a_function_without_source_is_refused(wrong):
    expected = "expected a function with its source in a file: give the text to fastcell.parse"
    with pytest.raises(LanguageError, match=expected):
        fastcell.cell(wrong)


def test_a_class_or_a_lambda_is_no_cell():
    for wrong in (Cell, lambda x, h: x + h):
        with pytest.raises(LanguageError):
            fastcell.cell(wrong)


# Importing


def test_the_language_needs_no_torch_and_no_numpy():
    code = (
        "import sys, fastcell\n"
        "fastcell.parse('def f(x, h): return x + h'), fastcell.library.lstm, dir(fastcell)\n"
        "print(sorted({'torch', 'numpy', 'triton'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
