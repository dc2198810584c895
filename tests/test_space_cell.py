"""Codes as cells and cells as codes; functional keys against expressions and Cell.key."""

import contextlib

import numpy as np
import pytest
import space_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from space_cases import GOLDEN, SUMS, codes, compiled, edited, listed, near_pairs

from fastcell import library, parse, space
from fastcell.errors import CodeError


@given(near_pairs())
def test_functional_keys_are_equal_exactly_for_equal_expressions(pair):
    one, two = space.functional_key(pair)
    assert (one == two) == (oracle.expression(pair[0]) == oracle.expression(pair[1]))


def test_functional_key_gathers_all_ways_to_write_an_expression():
    found = listed(compiled(SUMS))
    keys = space.functional_key(found)
    names, sizes = np.unique(keys, return_counts=True)
    some = np.random.default_rng(0).choice(names[sizes > 1], 300, replace=False)
    members = np.flatnonzero(np.isin(keys, some))
    for other_key, several in (
        (oracle.expression, members),
        (lambda code: space.decode(code).key, members[::4]),
    ):
        pairs = {(keys[i], other_key(int(found[i]))) for i in several}
        assert len(pairs) == len({key for key, _ in pairs}) == len({other for _, other in pairs})


@given(near_pairs())
def test_functional_key_agrees_with_the_key_of_cells(pair):
    one, two = space.functional_key(pair)
    assert (one == two) == (space.decode(pair[0]).key == space.decode(pair[1]).key)


@given(codes())
def test_encode_finds_the_smallest_code_of_the_key(code):
    found = space.encode(space.decode(code))
    assert found <= space.canonicalize(code)
    assert space.is_canonical(found)
    assert space.functional_key(found) == space.functional_key(code)


@st.composite
def programs(draw):
    """A cell of three gates and a few sums, written in some way, which may not be in the space."""
    names, unread, lines = ["x", "h", "c"], {"x", "h", "c"}, []
    for kind in draw(st.permutations(["gate", "product", "tanh gate", "sum", "sum"])):
        a, b = draw(st.permutations(names))[:2]
        v = draw(st.sampled_from(names))
        value = {
            "gate": f"gate({a}, {b}, {v})",
            "product": f"{v} * sigmoid(linear({a}, {b}))",
            "tanh gate": f"gate({a}, {b}, tanh({v}))",
            "sum": f"{a} + {v}",
        }[kind]
        name = f"n{len(lines)}"
        lines.append(f"{name} = {value}")
        names.append(name)
        unread = (unread | {name}) - ({a, v} if kind == "sum" else {a, b, v})
    h, c = (draw(st.sets(st.sampled_from(names), min_size=1, max_size=3)) for _ in range(2))
    returned = f"return {' + '.join(sorted(h))}, {' + '.join(sorted(c | unread))}"
    return parse("\n    ".join(["def odd(x, h, c):", *lines, returned]))


@settings(max_examples=150)
@given(programs())
def test_encode_gives_the_same_cell_or_none(cell):
    with contextlib.suppress(CodeError):
        assert space.decode(space.encode(cell)).key == cell.key


def test_encode_reads_published_cells():
    assert space.encode(library.lstm) == GOLDEN["lstm"]
    assert space.encode(library.adding_dag) == GOLDEN["adding_dag"]
    for name in ("lstm", "adding_dag"):
        assert space.decode(GOLDEN[name]).key == getattr(library, name).key


def test_decode_writes_the_cell_out():
    assert (
        str(space.decode(GOLDEN["adding_dag"]))
        == """\
def cell(x, h, c):
    g = tanh(linear(x, h))
    gate0 = gate(x, c, g)
    gate1 = gate(g, gate0, x)
    add = x + h + c + g + gate0
    gate2 = gate(x, add, tanh(gate1))
    return h + gate2, gate2"""
    )


def test_decode_marks_what_a_cell_does_not_read():
    code = edited(contexts=(3, 17, 129), values=(0, 0, 5), add=0b10011)
    text = str(space.decode(code))
    assert text.startswith("def cell(x, h, _c):")
    assert "tanh(linear" not in text


A, B, D = "a = gate(x, h, c)", "b = gate(x, c, h)", "d = gate(h, c, tanh(x))"
G, G2 = "g = tanh(linear(x, h))", "g2 = tanh(linear(x, h))"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{A}; {B}; return a + b, c", r"2 gate\(s\)"),
        (f"{A}; {B}; {D}; e = gate(h, c, x); return a + b + d, c + e", r"4 gate\(s\)"),
        (f"{A}; {B}; d = gate(h, c, x); return a + b + d, c", "0 gates with a tanh"),
        (f"{A}; {D}; b = gate(x, c, tanh(h)); return a + b + d, c", "2 gates with a tanh"),
        (f"{A}; {B}; {D}; return a + b + d, h - c", "'sub' at value"),
        (f"{A}; {B}; {D}; return a + b + d, 2 * c", "'const' at value"),
        (f"{A}; {B}; {D}; return a + b + d, x * c", "a product that is not sigmoids times one"),
        (f"{A}; {B}; {D}; return d, a * b", "a product that is not sigmoids times one"),
        (f"{A}; {B}; {D}; return a + b + d, c + tanh(x)", "a tanh outside a gate"),
        (f"{A}; {B}; {D}; return a + b + d, sigmoid(linear(x, c))", "a sigmoid outside a gate"),
        (f"{A}; {B}; {D}; return a + b + d, linear(x, c)", "a linear outside a gate"),
        (f"{A}; {B}; {D}; return a + b + d, tanh(linear(x, c))", "something else than x and h"),
        (f"{A}; {B}; {D}; {G}; {G2}; return a + b + d, g + g2", r"a second tanh\(linear"),
        (f"{A}; {B}; d = gate(x, h, c, x); return a + b + d, c", "a linear of two contexts"),
        (f"{A}; {B}; d = sigmoid(c) * x; return a + b + d, c", "a linear of two contexts"),
        (
            f"{A}; {B}; e = linear(x, h); d = sigmoid(e) * tanh(e); return a + b, d",
            "'e' read twice",
        ),
        (f"{A}; d = sigmoid(linear(x, h, bias=False)) * c; return a, d", "'d' without a bias"),
        (f"{B}; {D}; s = sigmoid(linear(x, h)); return b + d, s * x + s * h", "share a sigmoid"),
        (f"a = gate(x + h, c, x); b = gate(x + c, h, c); {D}; return a + b, d", "2 different sums"),
        (f"a = gate(x + x, h, c); {B}; {D}; return a + b, d", "with something twice in it"),
        (f"{A}; {B}; {D}; return a + b + d + d + d, c", "more than twice"),
        (f"a = gate(x, x, h); b = gate(h, h, c); {D}; return a + b, d", "one Add does not explain"),
        (f"{A}; {B}; {D}; s = a + x; return s + s + b + d, c + c + h", "one Add does not explain"),
    ],
)
def test_encode_says_why_a_cell_has_no_code(text, found):
    cell = parse("def odd(x, h, c):\n    " + text.replace("; ", "\n    "))
    with pytest.raises(CodeError, match=f"cell 'odd' has no code: expected .*, found .*{found}"):
        space.encode(cell)


def test_encode_takes_cells_of_two_states():
    with pytest.raises(CodeError, match=r"cell 'rnn' has no code: .* found 1 state\(s\)"):
        space.encode(library.rnn)
