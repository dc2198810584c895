"""Cells wired like a given graph, and graphs that are hard to tell apart."""

from collections.abc import Iterable
from itertools import product
from random import Random

import networkx as nx

from fastcell import Cell, parse


def wired(graph: nx.Graph, rng: Random | None = None) -> Cell:
    """Vertices are `linear`s of the same sources; an edge is the product of two; all are summed."""
    vertices, edges = list(graph), list(graph.edges)
    if rng:
        rng.shuffle(vertices)
        rng.shuffle(edges)
    names = {vertex: f"a{index}" for index, vertex in enumerate(vertices)}
    lines = [f"{name} = linear(x, h)" for name in names.values()]
    lines += [f"p{index} = {names[a]} * {names[b]}" for index, (a, b) in enumerate(edges)]
    return summed(lines, (f"p{index}" for index in range(len(edges))))


def summed(lines: list[str], terms: Iterable[str]) -> Cell:
    total = "x"
    for index, term in enumerate(terms):
        lines.append(f"s{index} = {total} + {term}")
        total = f"s{index}"
    return parse("\n    ".join(["def f(x, h):", *lines, f"return {total} + h"]))


def shrikhande() -> nx.Graph:
    """The rival of the 4 x 4 rook's graph: both strongly regular, (16, 6, 2, 2)."""
    steps = [(0, 1), (1, 0), (1, 1)]
    points = product(range(4), repeat=2)
    return nx.Graph(((a, b), ((a + da) % 4, (b + db) % 4)) for a, b in points for da, db in steps)


def rook(n: int) -> nx.Graph:
    return nx.line_graph(nx.complete_bipartite_graph(n, n))


def cai_furer_immerman(base: nx.Graph, twisted: bool) -> nx.Graph:
    """Even subsets of the edges at each vertex, joined along edges; one edge is crossed."""
    graph = nx.Graph()
    crossed = next(iter(base.edges)) if twisted else None
    for vertex in base:
        ends = [frozenset((vertex, other)) for other in base[vertex]]
        for chosen in product((0, 1), repeat=len(ends)):
            if sum(chosen) % 2 == 0:
                graph.add_edges_from(
                    (("inner", vertex, chosen), (vertex, end, bit))
                    for end, bit in zip(ends, chosen, strict=True)
                )
    for a, b in base.edges:
        end, swap = frozenset((a, b)), (a, b) == crossed
        graph.add_edges_from(((a, end, bit), (b, end, bit ^ swap)) for bit in (0, 1))
    return graph
