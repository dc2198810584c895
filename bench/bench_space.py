"""Codes a second: canonical form and sampling, on one thread, against Python, networkx and nauty.

A rival starts from a code and ends with a key of its isomorphism class, as `canonicalize` does.
Each is checked, then timed, on as many codes as it can do in a moment; `extra_info` has the rates.
"""

import random
import subprocess
import sys
from pathlib import Path

import networkx
import numpy as np
import pynauty
import pytest

from fastcell import _C, space

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import space_oracle as oracle  # the plain Python version

NODES = [*oracle.SOURCES, "h'", "c'", "gate0?", "gate1?", "gate2?"]
"""A gate has a node more, with a question mark, for its pair of contexts."""

KINDS = {node: node.replace("gate0", "gate1") for node in NODES}
"""The gates that differ in name only are of one kind."""

COLOURS = [{NODES.index(n) for n in NODES if KINDS[n] == kind} for kind in dict.fromkeys(KINDS.values())]


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


def labelled(n):
    """Cells under either of their two codes, by chance."""
    codes = space.sample(n, seed=1)
    swap = np.random.default_rng(0).random(n) < 0.5
    return np.where(swap, _C.twin(codes), codes)
