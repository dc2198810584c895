"""The search space against space_oracle: by brute force where it is small, at random where not."""

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx
import numpy as np
import pytest
import space_oracle as oracle
from hypothesis import given
from hypothesis import strategies as st

from fastcell import _C, library, parse, space
from fastcell.errors import CodeError

GOLDEN = json.loads((Path(__file__).parent / "golden" / "space_codes.json").read_text())


def reading(text):
    """A small space: 'gate0: x h; add: x' and so on; what is not named reads nothing."""
    allowed = dict.fromkeys(oracle.READERS, frozenset())
    for entry in text.split(";"):
        reader, names = entry.split(":")
        allowed[reader.strip()] = frozenset(names.split())
    return allowed


SMALL = {
    "every order": reading(
        "gate0: x h gate1 gate2 add; gate1: x h gate0 gate2 add; gate2: x h add; add: x;"
        "h': gate0 gate1 gate2 add; c': x"
    ),
    "no tanh gate": reading(
        "gate0: x h gate1 add; gate1: x h gate0 add; add: x gate0 gate1;"
        "h': x gate0 gate1 add; c': gate0 gate1"
    ),
    "no Add": reading(
        "gate0: x gate1 gate2; gate1: x gate0 gate2; gate2: x h gate0 gate1;"
        "h': gate0 gate1 gate2; c': x h gate2"
    ),
}
"""Spaces that can be listed, each with another part of the rules."""

EVEN = reading(
    "gate0: x h gate1 gate2 add; gate1: x h gate0 gate2 add; gate2: x h add; add: x gate0 gate1;"
    "h': gate0 gate1 gate2 add; c': gate2"
)
"""A space with enough cells of every order to take statistics of."""

SUMS = reading(
    "gate0: x gate1 gate2 add; gate1: x gate0 gate2 add; gate2: x h; add: x h gate2;"
    "h': x gate0 gate1 gate2 add; c': h add"
)
"""A space rich in cells that are one function: aliases, sums in sums, products of products."""


def compiled(allowed):
    return _C.Space(
        [sum(1 << oracle.SOURCES.index(n) for n in names) for names in allowed.values()]
    )


def listed(small):
    return np.concatenate([small.listed(order) for order in range(24)])


@pytest.fixture(scope="module", params=SMALL.values(), ids=SMALL)
def brute(request):
    """A small space, compiled, and what plain Python finds in it: code -> canonical code, order."""
    found = {}
    for cell in oracle.every_cell(request.param):
        code, other = oracle.pack(cell), oracle.pack(oracle.twin(cell))
        found[code] = min(code, other), oracle.smallest_order(oracle.internal(cell)[0])
    return compiled(request.param), found


def test_small_space_holds_what_brute_force_finds(brute):
    small, found = brute
    classes = sorted({canonical for canonical, _ in found.values()})
    assert sorted(listed(small)) == classes
    assert sum(small.strata()) == len(classes)
    assert _C.canonicalize(np.array([*found])).tolist() == [one for one, _ in found.values()]


def test_small_space_has_the_orders_of_brute_force(brute):
    small, found = brute
    orders = {one: found[one][1] for one, _ in found.values()}
    for order in range(24):
        assert {orders[code] for code in small.listed(order).tolist()} <= {order}
    assert small.strata() == [Counter(orders.values())[order] for order in range(24)]
    assert small.order(np.array([*found])).tolist() == [orders[one] for one, _ in found.values()]


def test_small_space_refuses_what_brute_force_does_not_find(brute):
    small, found = brute
    rng, labelled = random.Random(0), [*found]
    flipped = np.array([code ^ 1 << rng.randrange(57) for code in rng.choices(labelled, k=20_000)])
    valid = small.valid(flipped)
    assert np.array_equal(valid, np.isin(flipped, labelled))
    assert [small.broken_rule(code) == "" for code in flipped] == valid.tolist()


def test_all_orders_occur():
    assert min(compiled(SMALL["every order"]).strata()) > 0
    assert min(space.strata()) > 0


def test_sample_exhausts_a_small_space_and_no_more():
    small = compiled(SMALL["every order"])
    most = min(24 * cells + order for order, cells in enumerate(small.strata()))
    codes = space._draw(small, most, seed=3, orders=24, threads=2)
    assert len(np.unique(codes)) == most
    smallest = int(np.argmin(small.strata()))
    assert np.array_equal(np.sort(codes[smallest::24]), np.sort(small.listed(smallest)))
    with pytest.raises(CodeError, match=f"expected n <= {most:,}"):
        space._draw(small, most + 1, seed=3, orders=24, threads=2)


def test_sample_is_uniform_within_each_order():
    """How often each of an order's N cells is among the k of a sample, over m samples.

    A count has variance v = m p (1 - p), p = k/N, and two have covariance -v/(N-1). So the sum of
    (count - m p)^2 / v has mean N, and the variance of a chi-square but for 1/v, of rare cells.
    """
    small, k, m = compiled(EVEN), 200, 200
    samples = np.stack([space._draw(small, 24 * k, seed, 24, 1) for seed in range(m)])
    for order in range(24):
        cells = np.sort(small.listed(order))
        mean = m * k / len(cells)
        variance = mean * (1 - k / len(cells))
        drawn = np.searchsorted(cells, samples[:, order::24].ravel())
        counts = np.bincount(drawn, minlength=len(cells))
        chi_square = ((counts - mean) ** 2).sum() / variance
        assert abs(chi_square - len(cells)) < 4 * np.sqrt(len(cells) * (2 + 1 / variance))


@st.composite
def codes(draw):
    """A labelled cell of the whole space, filled up in some order; what is not live joins h'."""
    cell, available = {}, list(oracle.INPUTS)
    for node in draw(st.permutations(oracle.INTERNAL)):
        source = st.sampled_from(available)
        if node in oracle.GATES:
            contexts = draw(st.sets(source, min_size=2, max_size=2))
            cell[node] = frozenset(contexts), draw(source)
        else:
            cell[node] = frozenset(draw(st.sets(source, min_size=1)))
        available.append(node)
    for output in ("h'", "c'"):
        cell[output] = frozenset(draw(st.sets(st.sampled_from(oracle.SOURCES), min_size=1)))
    cell["h'"] |= set(oracle.INTERNAL) - oracle.reached(*oracle.internal(cell))
    return oracle.pack(cell)


@st.composite
def near_pairs(draw):
    """Two cells that are the same, or twins, or differ in one or two bits."""
    code = draw(codes())
    other = oracle.pack(oracle.twin(oracle.unpack(code))) if draw(st.booleans()) else code
    for bit in draw(st.sets(st.integers(0, 56), max_size=2)):
        other ^= 1 << bit
    return code, other if oracle.is_cell(other) else code


@given(codes())
def test_a_code_is_its_cell(code):
    assert oracle.is_cell(code)
    assert space.canonicalize(code) == oracle.canonical(code)
    assert space.is_canonical(code) == (code == oracle.canonical(code))
    assert space.order(code) == oracle.order(code)


@given(codes(), st.sets(st.integers(0, 63), max_size=3))
def test_valid_codes_are_those_that_keep_the_rules(code, bits):
    for bit in bits:
        code ^= 1 << bit
    as_int64 = code - (1 << 64) if code >> 63 else code
    if oracle.is_cell(code):
        assert space.whole().broken_rule(as_int64) == ""
        space.canonicalize(as_int64)
    else:
        with pytest.raises(CodeError, match=f"found {as_int64} at index 0: "):
            space.canonicalize(as_int64)


def graph(code):
    """The cell with its gates' names taken off."""
    cell, net = oracle.unpack(code), networkx.DiGraph()
    for name in {*oracle.SOURCES, *oracle.READERS}:
        net.add_node(name, kind="identity" if name in ("gate0", "gate1") else name)
    for reader in oracle.READERS:
        for name in oracle.reads(cell, reader):
            gate = reader in oracle.GATES
            role = (name in cell[reader][0], name == cell[reader][1]) if gate else "term"
            net.add_edge(name, reader, role=role)
    return net


@given(near_pairs())
def test_canonical_codes_are_equal_exactly_for_isomorphic_cells(pair):
    isomorphic = networkx.is_isomorphic(
        *map(graph, pair),
        node_match=lambda a, b: a["kind"] == b["kind"],
        edge_match=lambda a, b: a["role"] == b["role"],
    )
    one, two = space.canonicalize(pair)
    assert (one == two) == isomorphic


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
        (f"{A}; {B}; {D}; return a + b + d + d + d, c", "more than twice"),
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


def test_codes_never_change():
    assert GOLDEN["version"] == space.SPACE_VERSION
    assert space.count() == GOLDEN["count"]
    assert space.strata() == GOLDEN["strata"]
    sample = space.sample(24, seed=0)
    assert sample.tolist() == GOLDEN["sample"]
    assert space.functional_key(sample).tolist() == GOLDEN["functional_keys"]
    many = space.sample(100_000, seed=1).astype("<i8")
    assert hashlib.sha256(many.tobytes()).hexdigest() == GOLDEN["sample_sha256"]


def test_count_is_burnsides():
    assert space.count() == oracle.count()


def test_sample_is_distinct_canonical_and_even_over_the_orders():
    sample = space.sample(240_001, seed=5)
    assert space.is_canonical(sample).all()
    assert len(np.unique(sample)) == len(sample)
    assert np.array_equal(space.order(sample), np.arange(len(sample)) % 24)


def test_sample_depends_on_the_seed_alone():
    sample = space.sample(5_000, seed=2, threads=1)
    for threads in (2, 3, 24, None):
        assert np.array_equal(sample, space.sample(5_000, seed=2, threads=threads))
    for shorter in (0, 1, 23, 24, 1_000):
        assert np.array_equal(sample[:shorter], space.sample(shorter, seed=2))
    assert not np.intersect1d(sample, space.sample(5_000, seed=3)).size


def test_sample_of_some_orders():
    sample = space.sample(100, orders=7)
    assert np.array_equal(space.order(sample), np.arange(100) % 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": -1}, "n: expected a whole number >= 0, found -1"),
        ({"n": 2.0}, "n: expected a whole number >= 0, found 2.0"),
        ({"n": 10**15}, "expected n <= 637,"),
        ({"n": 1, "seed": -1}, "seed: expected a whole number >= 0 and <= 18446744073709551615"),
        ({"n": 1, "orders": 25}, "orders: expected a whole number >= 1 and <= 24, found 25"),
        ({"n": 1, "threads": 0}, "threads: expected a whole number >= 1"),
    ],
)
def test_sample_refuses(arguments, message):
    with pytest.raises(CodeError, match=message):
        space.sample(**arguments)


FUNCTIONS = [space.canonicalize, space.is_canonical, space.order, space.functional_key]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_any_shape_of_codes(function):
    codes = space.sample(48, seed=4)
    flat = function(codes)
    assert [function(int(code)) for code in codes] == flat.tolist()
    assert function(codes.tolist()).tolist() == flat.tolist()
    assert np.array_equal(function(codes.reshape(6, 8).T), flat.reshape(6, 8).T)
    assert np.array_equal(function(codes[::-5]), flat[::-5])
    assert np.array_equal(function(codes.astype(np.uint64)), flat)
    for empty in ([], np.empty(0, np.int64), np.empty((3, 0), np.int64)):
        assert function(empty).shape == np.shape(empty)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("codes", [1.0, [True], "1", [2**70], np.empty(0), None])
def test_codes_are_integers(function, codes):
    with pytest.raises(CodeError, match="expected codes as integers, found"):
        function(codes)


def edited(**fields):
    """The reference cell with other fields, so that one rule breaks."""
    return space.unpack(GOLDEN["adding_dag"])._replace(**fields).pack()


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (1 << 57, "it has bits above the 57 of a code"),
        (-1, "it has bits above the 57 of a code"),
        (0, r"gate0 has 0 context\(s\), not 2"),
    ],
)
def test_a_code_that_is_no_cell_is_refused_by_name(code, rule):
    codes = [*space.sample(3).tolist(), code, 0]
    message = f"expected codes of cells, found {code} at index 3: {rule}"
    for function in FUNCTIONS:
        with pytest.raises(CodeError, match=message):
            function(codes)
    with pytest.raises(CodeError, match=rule):
        space.decode(code)


@pytest.mark.parametrize(
    ("reads", "message"),
    [
        ((1, 2, 0, 0, 1, 1), "gate0 and gate1 must read alike"),
        ((0, 0, 0x40, 0, 1, 1), "gate2 may not read itself or the absent"),
        ((0, 0, 0, 0, 0x80, 1), "h' may not read itself or the absent"),
    ],
)
def test_a_space_has_to_make_sense(reads, message):
    with pytest.raises(ValueError, match=message):
        _C.Space(reads)


def test_the_whole_space_is_too_long_to_list():
    with pytest.raises(ValueError, match="too long to list"):
        space.whole().listed(0)


def test_the_space_needs_no_torch():
    program = "import sys, fastcell.space; fastcell.space.count(); print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
