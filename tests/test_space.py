"""The search space against space_oracle: by brute force where it is small, at random where not."""

import hashlib
import random
import subprocess
import sys
from collections import Counter

import networkx
import numpy as np
import pytest
import space_oracle as oracle
from hypothesis import given
from hypothesis import strategies as st
from space_cases import EVEN, GOLDEN, SMALL, codes, compiled, edited, listed, near_pairs

from fastcell import _C, space
from fastcell.errors import CodeError


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


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (1 << 57, "it has bits above the 57 of a code"),
        (-1, "it has bits above the 57 of a code"),
        (0, r"gate0 has 0 context\(s\), not 2"),
        (edited(contexts=(0b111, 24, 129)), r"gate0 has 3 context\(s\), not 2"),
        (edited(contexts=(5, 24, 0x41)), "gate2 reads itself"),
        (edited(values=(3, 5, 5)), "gate1 reads itself"),
        (edited(add=0x81), "add reads itself"),
        (edited(add=0), "add sums nothing"),
        (edited(h=0), "h' sums nothing"),
        (edited(c=0), "c' sums nothing"),
        (edited(contexts=(0x81, 24, 129)), "its gates and Add form a cycle"),
        (edited(h=0x22, c=0x10), "gate2 reaches neither h' nor c'"),
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
