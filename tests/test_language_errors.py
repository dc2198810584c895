"""Every refusal of the language: where it points, what it found, what it expected."""

import pytest

import fastcell
from fastcell import LanguageError, parse


def step(body):
    """A cell with the given lines as its body, the last one returned."""
    *lines, last = body.split("; ")
    return "\n".join(["def f(x, h):", *(f"    {line}" for line in lines), f"    return {last}"])


EXPRESSION = "a number, a name, + - * / or a call"
FUNCTION = "one function: def cell(x, h): ..."
ASCII = "a name of ASCII letters, digits and underscores"
ARGUMENTS = "the input and at least one state: (x, h)"
LINEAR = "linear(a, b, ..., bias=True)"
GATE = "gate(a, b, ..., value), which is sigmoid(linear(a, b, ...)) * value"
KNOWN = (
    "one of abs, exp, gate, gelu, layernorm, linear, neg, relu, rmsnorm, scalar, sigmoid, silu,"
    " softsign, softsign_scaled, tanh, vector"
)
SHADOW = "'{}', which would shadow a function of the language".format
UNUSED = "'{}', which is never used".format
UNDERSCORE = "it in a returned value, or '_{}' if that is meant".format
STATE = "a row of H values for state 'h'"
PLAIN = "plain names only"
ONCE = "a new name: each is given once"
ASSIGNMENT = "name = expression"
TARGET = "one name on the left of '='"
RETURN = "'return' with one new state per state"
FINITE = "a finite number"
NUMBER = "a number"
SYNTAX = "Python syntax"
OPERATOR = "one of + - * /"
ANOTHER = "another name"

ERRORS = [
    # One function
    ("", 1, 1, "nothing", FUNCTION),
    ("# only a comment", 1, 1, "nothing", FUNCTION),
    ("x", 1, 1, "a bare expression", FUNCTION),
    ("import os\ndef f(x, h): return x + h", 1, 1, "import", FUNCTION),
    ("def f(x, h): return x + h\nf = 1", 2, 1, "assign", FUNCTION),
    ("def f(x, h): return x + h\n\ndef g(x, h): return h", 3, 1, "a second function", FUNCTION),
    ("async def f(x, h): return x", 1, 1, "async function def", FUNCTION),
    ("class F: pass", 1, 1, "class def", FUNCTION),
    # Its signature
    ("def f(): return 1", 1, 1, "0 argument(s)", ARGUMENTS),
    ("def f(x): return x", 1, 1, "1 argument(s)", ARGUMENTS),
    ("def f(x, h, *a): return x", 1, 14, "special argument 'a'", PLAIN),
    ("def f(x, **k): return x", 1, 12, "special argument 'k'", PLAIN),
    ("def f(x, *, h): return x", 1, 13, "special argument 'h'", PLAIN),
    ("def f(x, h, /): return x", 1, 7, "special argument 'x'", PLAIN),
    ("def f(x, h=1): return x", 1, 12, "default 1", "states without defaults"),
    ("@jit\ndef f(x, h): return x", 1, 2, "decorator jit", "no decorator but @fastcell.cell"),
    ("def f(x, x): return x", 1, 10, "a second 'x'", ONCE),
    ("def f(x, ħ): return x", 1, 10, "name 'ħ'", ASCII),
    ("def ячейка(x, h): return x", 1, 1, "name 'ячейка'", ASCII),
    ("def f(x, tanh): return x", 1, 10, SHADOW("tanh"), ANOTHER),
    # Its statements
    (step("y = h; y = x; y"), 3, 5, "a second 'y'", ONCE),
    (step("h = x; h"), 2, 5, "a second 'h'", ONCE),
    (step("linear = x; h"), 2, 5, SHADOW("linear"), ANOTHER),
    (step("return x; h"), 2, 5, "an early return", "one return, as the last line"),
    (step("import os; h"), 2, 5, "import", ASSIGNMENT),
    (step("for i in x: pass; h"), 2, 5, "for", ASSIGNMENT),
    (step("y: int = x; h"), 2, 5, "ann assign", ASSIGNMENT),
    (step("y += x; h"), 2, 5, "aug assign", ASSIGNMENT),
    (step("'doc'; 'doc'; h"), 3, 5, "a bare expression", ASSIGNMENT),
    (step("a = b = x; h"), 2, 5, "a", TARGET),
    (step("a, b = x; h"), 2, 5, "(a, b)", TARGET),
    (step("x.y = x; h"), 2, 5, "x.y", TARGET),
    # What it returns
    ("def f(x, h): pass", 1, 14, "pass", RETURN),
    ("def f(x, h): return", 1, 14, "return", RETURN),
    ("def f(x, h):\n  'doc'", 2, 3, "a bare expression", RETURN),
    (step("x, h"), 2, 5, "2 returned value(s)", "1, one per state (h)"),
    ("def f(x, h, c): return h", 1, 17, "1 returned value(s)", "2, one per state (h, c)"),
    ("def f(x, h, c): return x + h, h", 1, 13, UNUSED("c"), UNDERSCORE("c")),
    (step("y = h + x; x"), 1, 10, UNUSED("h"), UNDERSCORE("h")),
    (step("h"), 1, 7, UNUSED("x"), UNDERSCORE("x")),
    # Names and functions
    (step("x + y"), 2, 16, "unknown name 'y'", "one of x, h"),
    (step("g = tanh(x); g + G"), 3, 16, "unknown name 'G'", "one of x, h, g"),
    (step("ячейка + h"), 2, 12, "unknown name 'ячейка'", "one of x, h"),
    (step("tanh + h"), 2, 12, "unknown name 'tanh'", "one of x, h"),
    (step("foo(x) + h"), 2, 12, "unknown function 'foo'", KNOWN),
    (step("f(x, h)"), 2, 12, "unknown function 'f'", KNOWN),
    (step("__import__('os')"), 2, 12, "unknown function '__import__'", KNOWN),
    (step("rsqrt(x) + h"), 2, 12, "unknown function 'rsqrt'", KNOWN),
    # Arguments
    (step("tanh() + h"), 2, 12, "0 argument(s)", "tanh(value)"),
    (step("tanh(x, h)"), 2, 12, "2 argument(s)", "tanh(value)"),
    (step("tanh(a=x) + h"), 2, 19, "keyword 'a'", "tanh(value)"),
    (step("tanh(**x) + h"), 2, 19, "**x", "tanh(value)"),
    (step("linear() + h"), 2, 12, "0 argument(s)", LINEAR),
    (step("linear(*x, h)"), 2, 19, "*x", LINEAR),
    (step("linear(x, h, a=True)"), 2, 27, "keyword 'a'", LINEAR),
    (step("linear(x, h, bias=h)"), 2, 30, "keyword 'bias'", LINEAR),
    (step("linear(x, **h)"), 2, 24, "**h", LINEAR),
    (step("linear(x, h, bias=1)"), 2, 30, "bias=1", "bias=True or bias=False"),
    (
        step("linear(x, 2)"),
        2,
        22,
        "the single number 2",
        "a row of values in linear(a, b, ..., bias=True)",
    ),
    (step("gate(x) + h"), 2, 12, "1 argument(s)", GATE),
    (step("gate(x, h, bias=True)"), 2, 28, "keyword 'bias'", GATE),
    (step("scalar() * h"), 2, 12, "0 argument(s)", "scalar(initial value)"),
    (step("scalar(init=1) * h"), 2, 24, "keyword 'init'", "scalar(initial value)"),
    (step("vector(h) * x"), 2, 19, "h", "a number in vector(initial value)"),
    # Widths
    (step("1"), 2, 12, "the single number 1", STATE),
    (step("scalar(1) * 2"), 2, 12, "the single number scalar(1) * 2", STATE),
    (
        step("layernorm(2) + x + h"),
        2,
        22,
        "the single number 2",
        "a row of H values in layernorm(value)",
    ),
    # Parameters
    (
        step("h_2 = linear(x); linear(h) + linear(x) + h_2"),
        3,
        24,
        "a second parameter named 'h_2'",
        "a variable of its own for it",
    ),
    # Numbers
    (step("1e999 * h"), 2, 12, "1e309", FINITE),
    (step("1e308 * 10 + h"), 2, 12, "1e+308 * 10", FINITE),
    (step(f"1{'0' * 400} + h"), 2, 12, "...", FINITE),
    (step("h / 0"), 2, 12, "a division by zero", "a divisor other than 0"),
    (step("1 / (1 - 1) + h"), 2, 12, "a division by zero", "a divisor other than 0"),
    (step("2j + h"), 2, 12, "2j", NUMBER),
    (step("True + h"), 2, 12, "True", NUMBER),
    (step("None"), 2, 12, "None", NUMBER),
    (step("'text' + h"), 2, 12, "'text'", NUMBER),
    (step("..."), 2, 12, "...", NUMBER),
    # Operators and the rest of Python
    (step("x ** h"), 2, 12, "operator Pow", OPERATOR),
    (step("x @ h"), 2, 12, "operator MatMult", OPERATOR),
    (step("x % h"), 2, 12, "operator Mod", OPERATOR),
    (step("+x + h"), 2, 12, "unary op", EXPRESSION),
    (step("not h"), 2, 12, "unary op", EXPRESSION),
    (step("x < h"), 2, 12, "compare", EXPRESSION),
    (step("x and h"), 2, 12, "bool op", EXPRESSION),
    (step("x if h else h"), 2, 12, "if expression", EXPRESSION),
    (step("lambda: h"), 2, 12, "lambda", EXPRESSION),
    (step("(y := h) + x"), 2, 13, "named expr", EXPRESSION),
    (step("f'{x}' + h"), 2, 12, "joined str", EXPRESSION),
    (step("x.T + h"), 2, 12, "attribute", EXPRESSION),
    (step("x.tanh() + h"), 2, 12, "call", EXPRESSION),
    (step("x[0] + h"), 2, 12, "subscript", EXPRESSION),
    (step("[x, h]"), 2, 12, "list", EXPRESSION),
    (step("[h for h in x]"), 2, 12, "list comp", EXPRESSION),
    (step("(yield x)"), 2, 13, "yield", EXPRESSION),
    # Text that is no Python
    ("def f(x, h) return x", 1, 13, "a syntax error (expected ':')", SYNTAX),
    (
        "def f(x, h):\nreturn x",
        2,
        1,
        "a syntax error (expected an indented block after function definition on line 1)",
        SYNTAX,
    ),
    (step("tanh(x"), 2, 16, "a syntax error ('(' was never closed)", SYNTAX),
]


@pytest.mark.parametrize(("text", "line", "column", "found", "expected"), ERRORS)
def test_errors_say_where_what_and_the_mend(text, line, column, found, expected):
    with pytest.raises(LanguageError) as caught:
        parse(text)
    error = caught.value
    assert str(error) == f"line {line}, column {column}: found {found}, expected {expected}"
    assert (error.line, error.column) == (line, column)
    assert (error.found, error.expected) == (found, expected)
    assert isinstance(error, fastcell.FastcellError)
    assert isinstance(error, ValueError)
