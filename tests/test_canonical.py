"""Keys of cells: equal exactly when the cells are the same, quickly however symmetric they are."""

import json
import time
from itertools import combinations, product
from pathlib import Path
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isomorphism import cell_graph, isomorphic, nauty_form, wl_hash
from near_misses import near_miss
from program_text import write
from programs import random_program, random_text, texts
from wirings import cai_furer_immerman, rook, shrikhande, summed, wired

from fastcell import Cell, canonical, parse
from fastcell._C import canonical_form
from fastcell.errors import KeyLimitError
from fastcell.library import CELLS

GOLDEN = Path(__file__).parent / "golden" / "cell_keys.json"
BUDGET = 10**8
SECONDS = 10.0
"""What no key may take; each here takes a small part of it."""


def cell(body: str, sources: str = "x, h") -> Cell:
    """A cell from statements separated by ';', the last one being what is returned."""
    *statements, returned = body.split("; ")
    return parse("\n    ".join([f"def f({sources}):", *statements, f"return {returned}"]))


SAME = {
    "names": ("a = tanh(linear(x, h)); a * h", "b = tanh(linear(x, h)); c = b * h; c"),
    "commuted sum": ("tanh(x) + h", "h + tanh(x)"),
    "commuted product": ("tanh(x) * h", "h * tanh(x)"),
    "associated": ("(x + h) + abs(x)", "x + (h + abs(x))"),
    "through a shared sum": ("s = x + h; (s + abs(x)) * s", "(x + (h + abs(x))) * (h + x)"),
    "through a shared product": ("p = x * h; p * x + p", "x * (h * x) + h * x"),
    "inner equal values": ("tanh(x + h) * abs(h + x)", "s = h + x; tanh(s) * abs(s)"),
    "sources of linear": ("linear(x, h, tanh(x))", "linear(tanh(x), x, h)"),
    "statements": ("a = linear(x); b = linear(h); a / b", "b = linear(h); a = linear(x); a / b"),
    "shorthand": ("gate(x, h, x)", "sigmoid(linear(h, x)) * x"),
    "numbers": ("h + 0.5 + x", "h + 5e-1 + x"),
    "the sign of zero": ("h * (0 * -1) + x", "h * 0 + x"),
}

DIFFERENT = {
    "shared and separate": (
        "a = linear(x, h); tanh(a) * sigmoid(a)",
        "tanh(linear(x, h)) * sigmoid(linear(x, h))",
    ),
    "shared and separate scalar": ("a = scalar(1); a * x + a * h", "scalar(1) * x + scalar(1) * h"),
    "bias": ("linear(x, h)", "linear(x, h, bias=False)"),
    "source twice": ("linear(x, h, h)", "linear(x, h)"),
    "term twice": ("x + h + h", "x + h"),
    "algebra of twice": ("x + h + h", "x + 2 * h"),
    "factor twice": ("x * h * h", "x * h"),
    "left and right": ("x - h", "h - x"),
    "above and below": ("x / h", "h / x"),
    "regrouped difference": ("(x - h) - abs(h)", "x - (h - abs(h))"),
    "algebra of minus": ("x - h", "x + -h"),
    "initial value": ("scalar(1) * (x + h)", "scalar(2) * (x + h)"),
    "scalar and vector": ("scalar(1) * (x + h)", "vector(1) * (x + h)"),
    "parameter and number": ("scalar(1) * (x + h)", "1 * (x + h)"),
    "last bit": ("0.1 * (x + h)", "0.10000000000000002 * (x + h)"),
    "input and state": ("tanh(x) + h", "tanh(h) + x"),
    "nesting": ("tanh(tanh(x)) + h", "tanh(x) + h"),
    "sum in product": ("(x + h) * h", "x + h * h"),
}


@pytest.mark.parametrize(("a", "b"), SAME.values(), ids=SAME)
def test_the_same(a, b):
    assert cell(a).key == cell(b).key


@pytest.mark.parametrize(("a", "b"), DIFFERENT.values(), ids=DIFFERENT)
def test_different(a, b):
    assert cell(a).key != cell(b).key


def test_states_count_in_their_order():
    cells = [
        cell("tanh(linear(x, h))"),
        cell("tanh(linear(x, h)), c", "x, h, c"),
        cell("c, tanh(linear(x, h))", "x, h, c"),
        cell("tanh(linear(x, c)), c", "x, _h, c"),
        cell("tanh(linear(x, h)), h", "x, h, _c"),
        cell("h, tanh(linear(x, h))", "x, h, _c"),
    ]
    assert len({each.key for each in cells}) == len(cells)


def test_key_is_128_bits_in_hex():
    for each in CELLS.values():
        assert len(each.key) == 32
        assert int(each.key, 16) >= 0


def test_golden_keys():
    """Stored results carry keys: a change here needs a new version of the form."""
    golden = json.loads(GOLDEN.read_text())
    assert golden["form"] == canonical.FORM
    assert golden["library"] == {name: each.key for name, each in CELLS.items()}
    for text, key in golden["texts"].items():
        assert parse(text).key == key


@given(texts())
def test_printing_keeps_the_key(text):
    assert parse(str(parse(text))).key == parse(text).key


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_every_text_of_a_program_has_its_key(seed, size):
    rng = Random(seed)
    program = random_program(rng, size)
    assert parse(write(program, rng)).key == parse(write(program, rng)).key


# Random pairs against networkx and nauty


ACROSS = [(0, 3), (0, 4), (1, 4), (1, 5), (2, 5), (2, 3)]


@pytest.mark.parametrize("part", range(4))
def test_keys_agree_with_isomorphism_on_random_pairs(part):
    """210 programs a part: three texts of each and three of its near miss, in 12 pairs."""
    rng, unlike = Random(part), 0
    for _ in range(210):
        program = random_program(rng, rng.randint(2, 8))
        missed = near_miss(program, rng)
        cells = [parse(write(each, rng)) for each in (program, missed) for _ in range(3)]
        graphs = [cell_graph(each) for each in cells]
        forms = [nauty_form(graph) for graph in graphs]
        for a, b in [*combinations(range(3), 2), *combinations(range(3, 6), 2), *ACROSS]:
            same = isomorphic(graphs[a], graphs[b])
            assert same == (forms[a] == forms[b]), "networkx and nauty"
            assert same == (cells[a].key == cells[b].key), f"{cells[a]}\n{cells[b]}"
            assert same or (a, b) in ACROSS
            unlike += not same
    assert unlike > 210 * 4, "too few near misses differ"


# Pairs that colour refinement can't tell apart


ALIKE = {
    "hexagon and two triangles": (
        nx.cycle_graph(6),
        nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
    ),
    "cycles of 4 + 8 and of 6 + 6": (
        nx.disjoint_union(nx.cycle_graph(4), nx.cycle_graph(8)),
        nx.disjoint_union(nx.cycle_graph(6), nx.cycle_graph(6)),
    ),
    "prism and K(3,3)": (nx.circular_ladder_graph(3), nx.complete_bipartite_graph(3, 3)),
    "Petersen and 5-prism": (nx.petersen_graph(), nx.circular_ladder_graph(5)),
    "decalin and bicyclopentyl": (
        nx.Graph([*nx.cycle_graph(10).edges, (0, 5)]),
        nx.Graph([*nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5)).edges, (0, 5)]),
    ),
    "rook and Shrikhande": (rook(4), shrikhande()),
    "twisted over K4": tuple(
        cai_furer_immerman(nx.complete_graph(4), twisted) for twisted in (False, True)
    ),
}


@pytest.mark.parametrize(("a", "b"), ALIKE.values(), ids=ALIKE)
def test_pairs_that_colour_refinement_takes_for_one(a, b):
    cells = wired(a), wired(b)
    graphs = [cell_graph(each) for each in cells]
    assert wl_hash(graphs[0]) == wl_hash(graphs[1])
    assert nauty_form(graphs[0]) != nauty_form(graphs[1])
    assert nx.faster_could_be_isomorphic(a, b)
    assert not nx.is_isomorphic(a, b)
    assert cells[0].key != cells[1].key
    for graph, each in zip((a, b), cells, strict=True):
        assert {wired(graph, Random(seed)).key for seed in range(5)} == {each.key}


def test_random_regular_wirings_agree_with_nauty():
    """Refinement sees nothing in any of them; there are 21 cubic graphs on 10 vertices."""
    keys: dict[object, str] = {}
    for seed in range(120):
        each = wired(nx.random_regular_graph(3, 10, seed), Random(seed))
        assert keys.setdefault(nauty_form(cell_graph(each)), each.key) == each.key
    assert 12 <= len(keys) == len(set(keys.values())) <= 21


# The canonical form of any graph


def test_oriented_graphs_are_counted_right():
    """OEIS A001174: 582 oriented graphs on five vertices, up to isomorphism."""
    pairs = list(combinations(range(5), 2))
    forms = set()
    for ways in product((0, 1, 2), repeat=len(pairs)):
        edges = [
            (a, b, 0) if way == 1 else (b, a, 0)
            for (a, b), way in zip(pairs, ways, strict=True)
            if way
        ]
        forms.add(canonical_form([0] * 5, edges, BUDGET))
    assert len(forms) == 582


@given(st.integers(0, 2**32))
def test_form_forgets_numbering_and_is_a_graph_that_nauty_knows(seed):
    """Few colours, few labels: much symmetry."""
    rng = Random(seed)
    size = rng.randint(1, 14)
    colours = [rng.randrange(2) for _ in range(size)]
    chosen = [pair for pair in combinations(range(size), 2) if rng.random() < 0.3]
    edges = [(*rng.sample(pair, 2), rng.randrange(2)) for pair in chosen]
    names = rng.sample(range(size), size)
    renamed = [(names[a], names[b], label) for a, b, label in edges]
    moved = [colour for _, colour in sorted(zip(names, colours, strict=True))]
    form = canonical_form(colours, edges, BUDGET)
    assert form == canonical_form(moved, rng.sample(renamed, len(renamed)), BUDGET)
    words = [int.from_bytes(form[i : i + 4], "little") for i in range(0, len(form), 4)]
    assert nauty_of(*read_form(words, size)) == nauty_of(colours, edges)


def read_form(words: list[int], size: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The graph that a form writes down."""
    colours, rest, edges = words[:size], words[size:], []
    for vertex in range(size):
        count, *rest = rest
        pairs, rest = rest[: 2 * count], rest[2 * count :]
        edges += [(vertex, pairs[i], pairs[i + 1]) for i in range(0, 2 * count, 2)]
    assert not rest
    return colours, edges


def nauty_of(colours: list[int], edges: list[tuple[int, int, int]]) -> tuple[object, ...]:
    graph = nx.DiGraph()
    graph.add_nodes_from((i, {"label": colour}) for i, colour in enumerate(colours))
    graph.add_edges_from((a, b, {"label": label}) for a, b, label in edges)
    return nauty_form(graph)


def test_an_edge_to_nowhere_is_refused():
    with pytest.raises(ValueError, match="two of the 3 vertices, found 1 -> 7"):
        canonical_form([0, 0, 0], [(1, 7, 0)], BUDGET)


# Symmetric, large and hostile cells


def halves(n: int) -> Cell:
    """A chain of gates twice, side by side."""
    lines = [f"{side}0 = linear(x, h)" for side in "ab"]
    lines += [f"{s}{i + 1} = gate({s}{i}, h, tanh({s}{i}))" for i in range(n) for s in "ab"]
    return summed(lines, [f"a{n}", f"b{n}"])


SYMMETRIC = {
    "30 gates": lambda rng: summed([], ["gate(x, h, x)"] * 30),
    "1000 gates": lambda rng: summed([], ["gate(x, h, x)"] * 1000),
    "two halves": lambda rng: halves(200),
    "all pairs of 20": lambda rng: wired(nx.complete_graph(20), rng),
    "a ring of 500": lambda rng: wired(nx.cycle_graph(500), rng),
    "50 rings of 6": lambda rng: wired(nx.disjoint_union_all([nx.cycle_graph(6)] * 50), rng),
    "a hypercube": lambda rng: wired(nx.hypercube_graph(6), rng),
    "a tree": lambda rng: wired(nx.balanced_tree(3, 5), rng),
    "a 9 x 9 rook": lambda rng: wired(rook(9), rng),
    "12 Shrikhandes": lambda rng: wired(nx.disjoint_union_all([shrikhande()] * 12), rng),
    "twisted over 14 vertices": lambda rng: wired(
        cai_furer_immerman(nx.circular_ladder_graph(7), True), rng
    ),
    "asymmetric": lambda rng: wired(nx.random_regular_graph(4, 200, 1), rng),
}


@pytest.mark.parametrize("make", SYMMETRIC.values(), ids=SYMMETRIC)
def test_symmetric_cells_are_quick(make):
    cells = [make(Random(seed)) for seed in (1, 2)]
    started = time.process_time()
    keys = {each.key for each in cells}
    assert time.process_time() - started < SECONDS
    assert len(keys) == 1


def test_the_longest_text_is_quick():
    """8,000 interchangeable linears in 88,000 characters."""
    sources = ", ".join(["linear(x)"] * 8_000)
    each = parse(f"def f(x, _h):\n    return linear({sources})")
    started = time.process_time()
    assert each.key
    assert time.process_time() - started < SECONDS


def doublings(times: int, last: str) -> str:
    lines = [f"s{i + 1} = s{i} + s{i}" for i in range(times)]
    return "\n    ".join(["def f(x, h):", "s0 = x + h", *lines, f"return s{times} + {last}"])


def test_counts_are_exact_however_large():
    """2^3000 x + 2^3000 h + h, and one h or x more."""
    plain, again, other = (parse(doublings(3_000, last)) for last in ("h", "(h + h)", "x"))
    assert len({plain.key, again.key, other.key}) == 3
    assert plain.key == parse(doublings(3_000, "h").replace("x + h", "h + x")).key


def test_sums_that_flatten_without_bound_are_refused():
    lines = [f"s{i + 1} = s{i} + exp(s{i})" for i in range(3_000)]
    each = parse("\n    ".join(["def f(x, h):", "s0 = x + h", *lines, "return s3000"]))
    with pytest.raises(KeyLimitError, match=r"250,000 operands .* found more at s\d+: reuse fewer"):
        each.key  # noqa: B018 (computing it is the point)


def test_a_search_without_bound_is_refused(monkeypatch):
    each = wired(rook(4))
    monkeypatch.setattr(canonical, "MAX_STEPS", 1_000)
    with pytest.raises(KeyLimitError, match=r"67 values .* 1,000 steps, found one that is too sym"):
        each.key  # noqa: B018


def test_the_generator_writes_every_op():
    written = " ".join(random_text(seed, 20) for seed in range(200))
    known = ["gate", "linear", "scalar", "vector", "layernorm", "rmsnorm", "exp", "neg", "gelu"]
    known += ["sigmoid", "tanh", "softsign", "softsign_scaled", "relu", "silu", "abs"]
    assert [name for name in known if f" {name}(" in written or f"({name}(" in written] == known
    assert all(f" {symbol} " in written for symbol in "+-*/")
    assert "bias=False" in written
