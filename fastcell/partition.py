"""Which forward values the backward pass keeps in memory, and which it computes again.

A minimum cut. Every value that memory could hold is an edge, much the same cost for all; what
can't be computed again in the backward pass hangs off the source, what the derivative reads off
the sink. Cut edges are kept. Elementwise values are nearly free to redo, a product is not: a
`linear` is never computed again. Among equal cuts the one nearest to the derivative wins, for it
leaves the least to redo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from .node import Node

_SIZE = 1000
"""A kept value's cost; its distance from the derivative is added, a few units, to break ties."""


def kept_values(nodes: Sequence[Node], needed: Iterable[int], free: frozenset[int]) -> set[int]:
    """The nodes to keep so that every `needed` one can be had from them and the `free` ones.

    Free are the input, previous states and outputs that are in memory anyway, and numbers.
    """
    targets = set(needed) - free
    graph = _recompute_graph(nodes, targets, free)
    if not targets:
        return set()
    _, (source_side, _) = nx.minimum_cut(graph, "source", "sink")
    inside = {vertex for vertex in source_side if isinstance(vertex, tuple)}
    return {index for index, end in inside if end == "in" and (index, "out") not in inside}


def _recompute_graph(
    nodes: Sequence[Node], targets: set[int], free: frozenset[int]
) -> nx.DiGraph[object]:
    """Vertices (node, "in") and (node, "out"); an edge without capacity can't be cut."""
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    depth = dict.fromkeys(targets, 0)
    for index in reversed(range(len(nodes))):
        if index not in depth:
            continue
        entry, leave = (index, "in"), (index, "out")
        graph.add_edge(entry, leave, capacity=_SIZE + depth[index])
        if index in targets:
            graph.add_edge(leave, "sink")
        if nodes[index].op == "linear":
            graph.add_edge("source", entry)
            continue
        for arg in set(nodes[index].args) - free:
            graph.add_edge((arg, "out"), entry)
            depth[arg] = max(depth.get(arg, 0), depth[index] + 1)
    return graph
