"""Codes a second: canonical form and sampling, on one thread, against Python, networkx and nauty.

A rival starts from a code and ends with a key of its isomorphism class, as `canonicalize` does.
Each is checked, then timed, on as many codes as it can do in a moment; `extra_info` has the rates.
"""

import random
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import networkx
import numpy as np
import pynauty
import pytest

from fastcell import space
from fastcell.features import features

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import space_oracle as oracle  # the plain Python version

NODES = [*oracle.SOURCES, "h'", "c'", "gate0?", "gate1?", "gate2?"]
"""A gate has a node more, with a question mark, for its pair of contexts."""

KINDS = {node: node.replace("gate0", "gate1") for node in NODES}
"""The gates that differ in name only are of one kind."""

COLOURS = [
    {i for i, node in enumerate(NODES) if KINDS[node] == kind}
    for kind in dict.fromkeys(KINDS.values())
]


def edges(code):
    for reader, read in oracle.unpack(code).items():
        if reader in oracle.GATES:
            contexts, value = read
            yield from ((name, f"{reader}?") for name in contexts)
            yield from ((f"{reader}?", reader), (value, reader))
        else:
            yield from ((name, reader) for name in read)


def plain_key(code):
    assert oracle.is_cell(code)
    return oracle.canonical(code)


def networkx_key(code):
    graph = networkx.DiGraph(list(edges(code)))
    networkx.set_node_attributes(graph, KINDS, "kind")
    return networkx.weisfeiler_lehman_graph_hash(graph, node_attr="kind")


def pynauty_key(code):
    graph = pynauty.Graph(len(NODES), directed=True, vertex_coloring=COLOURS)
    for start, end in edges(code):
        graph.connect_vertex(NODES.index(start), [NODES.index(end)])
    return pynauty.certificate(graph)


def one_by_one(key):
    return lambda codes: list(map(key, codes.tolist()))


KEYS = {
    "fastcell": (space.canonicalize, 10_000_000),
    "python": (one_by_one(plain_key), 1_000),
    "networkx-wl": (one_by_one(networkx_key), 100),
    "pynauty": (one_by_one(pynauty_key), 1_000),
}
"""Rival -> its keys of an array of codes, and how many codes it is timed on."""


@pytest.fixture(scope="module")
def labelled():
    """100,000 cells, each under either of its two codes, by chance."""
    rng = random.Random(0)
    codes = space.sample(100_000, seed=1).tolist()
    twins = (oracle.pack(oracle.twin(oracle.unpack(code))) for code in codes)
    return np.array([rng.choice(pair) for pair in zip(codes, twins, strict=True)])


@pytest.mark.filterwarnings("ignore:The hashes produced for directed graphs:UserWarning")
@pytest.mark.benchmark(group="key of an isomorphism class")
@pytest.mark.parametrize("rival", KEYS)
def test_canonical_keys(benchmark, labelled, rival):
    keys, n = KEYS[rival]
    some = labelled[:200]
    names = np.array([oracle.canonical(code) for code in some.tolist()])
    found, canonical = list(keys(some)), list(keys(names))
    assert found == canonical, "one key for both codes of a cell"
    assert len(set(found)) == len(set(names.tolist())), "another key for another cell"
    timed(benchmark, n, keys, np.resize(labelled, n))


def plain_sample(n, seed):
    """By the definition: fill up in the order, keep what is new, canonical and of that order."""
    rng, orders, codes = random.Random(seed), list(permutations(oracle.INTERNAL)), {}
    while len(codes) < n:
        order = len(codes) % 24
        code = plain_cell(rng, orders[order])
        if oracle.is_cell(code) and oracle.canonical(code) == code and oracle.order(code) == order:
            codes[code] = None
    return np.array([*codes])


def plain_cell(rng, order):
    cell, available = {}, list(oracle.INPUTS)
    for node in (*order, "h'", "c'"):
        if node in oracle.GATES:
            cell[node] = frozenset(rng.sample(available, 2)), rng.choice(available)
        else:
            mask = rng.randrange(1, 1 << len(available))
            cell[node] = frozenset(name for i, name in enumerate(available) if mask >> i & 1)
        available += [node] if node in oracle.INTERNAL else []
    return oracle.pack(cell)


SAMPLERS = {
    "fastcell": (lambda n: space.sample(n, seed=0, threads=1), 1_000_000),
    "python": (lambda n: plain_sample(n, seed=0), 240),
}


@pytest.mark.benchmark(group="sample without replacement, even over the orders")
@pytest.mark.parametrize("rival", SAMPLERS)
def test_sample(benchmark, rival):
    sample, n = SAMPLERS[rival]
    codes = sample(n)
    assert len(np.unique(codes)) == n
    assert space.is_canonical(codes).all()
    assert np.array_equal(space.order(codes), np.arange(n) % 24)
    timed(benchmark, n, sample, n)


def timed(benchmark, n, function, argument):
    benchmark.pedantic(function, args=(argument,), rounds=5, warmup_rounds=1)
    if benchmark.stats:
        benchmark.extra_info["codes_per_second"] = round(n / benchmark.stats.stats.median)


@pytest.mark.slow
def test_a_hundred_million_fit_in_four_gigabytes():
    program = (
        "import resource; from fastcell import space; codes = space.sample(100_000_000);"
        "print(codes.size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    size, kilobytes = map(int, run.stdout.split())
    assert size == 100_000_000
    assert kilobytes < 4_000_000


def test_features(benchmark):
    """The meta-model's columns of 1,000,000 cells, in blocks, on one thread."""
    blocks = np.array_split(space.sample(1_000_000, 0), 16)
    benchmark(lambda: [features(block) for block in blocks].clear())
    benchmark.extra_info["codes_per_second"] = 1_000_000 / benchmark.stats.stats.median
