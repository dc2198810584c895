"""When two cells are the same, found the slow way: by rewriting a graph, and by others' algorithms.

The graph of a cell holds every value as a node. Sums of sums and products of products are rewritten
until there are none, then equal elementwise values are merged until there are none.
"""

from collections import Counter, defaultdict

import networkx as nx
import pynauty
from networkx.algorithms.isomorphism import DiGraphMatcher, categorical_edge_match
from networkx.algorithms.isomorphism import categorical_node_match as node_match

from fastcell import Cell

FLAT = ("add", "mul")
UNORDERED = (*FLAT, "linear")
IDENTICAL = ("input", "state", "linear", "scalar", "vector", "new state")


def cell_graph(cell: Cell) -> nx.DiGraph:
    """Edges run from a value to its readers; `label` is on nodes and on edges."""
    graph = nx.DiGraph()
    for index, node in enumerate(cell.nodes):
        place = index if node.op in ("input", "state") else node.value
        graph.add_node(index, op=node.op, label=(node.op, place, node.bias))
        for position, arg in enumerate(node.args):
            _read(graph, arg, index, Counter(["any" if node.op in UNORDERED else position]))
    for position, output in enumerate(cell.outputs):
        sink = f"new state {position}"
        graph.add_node(sink, op="new state", label=("new state", position, False))
        _read(graph, output, sink, Counter([0]))
    _flatten(graph)
    _drop_unread(graph)
    _merge(graph)
    for *_, data in graph.edges(data=True):
        data["label"] = tuple(sorted(data["roles"].items()))
    return graph


def _read(graph: nx.DiGraph, value: object, reader: object, roles: Counter) -> None:
    if not graph.has_edge(value, reader):
        graph.add_edge(value, reader, roles=Counter())
    graph.edges[value, reader]["roles"] += roles


def _flatten(graph: nx.DiGraph) -> None:
    op = graph.nodes(data="op")
    while nested := [(a, b) for a, b in graph.edges if op[a] == op[b] and op[a] in FLAT]:
        part, whole = nested[0]
        times = graph.edges[part, whole]["roles"]["any"]
        graph.remove_edge(part, whole)
        for arg, _, roles in list(graph.in_edges(part, data="roles")):
            _read(graph, arg, whole, Counter({"any": times * roles["any"]}))


def _drop_unread(graph: nx.DiGraph) -> None:
    op = graph.nodes(data="op")
    while unread := [n for n in graph if graph.out_degree(n) == 0 and op[n] not in IDENTICAL]:
        graph.remove_nodes_from(unread)


def _merge(graph: nx.DiGraph) -> None:
    merged = True
    while merged:
        merged = False
        alike = defaultdict(list)
        for node, data in graph.nodes(data=True):
            if data["op"] not in IDENTICAL:
                reads = graph.in_edges(node, data="roles")
                roles = frozenset((arg, frozenset(roles.items())) for arg, _, roles in reads)
                alike[data["label"], roles].append(node)
        for first, *others in alike.values():
            for other in others:
                merged = True
                for _, reader, roles in list(graph.out_edges(other, data="roles")):
                    _read(graph, first, reader, roles)
                graph.remove_node(other)


def isomorphic(a: nx.DiGraph, b: nx.DiGraph) -> bool:
    """Exact, by networkx's VF2."""
    same_label = node_match("label", None), categorical_edge_match("label", None)
    return DiGraphMatcher(a, b, *same_label).is_isomorphic()


def nauty_form(graph: nx.DiGraph) -> tuple[object, ...]:
    """Equal exactly when graphs are isomorphic, by nauty.

    Undirected, which nauty refines much better: an edge is a path over a tail and a head vertex.
    """
    vertices = {node: index for index, node in enumerate(graph)}
    colours, neighbours = defaultdict(set), defaultdict(list)
    for node, label in graph.nodes(data="label"):
        colours[repr(label)].add(vertices[node])
    for index, (a, b, label) in enumerate(graph.edges(data="label")):
        tail = len(vertices) + 2 * index
        colours[f"tail {label!r}"].add(tail)
        colours[f"head {label!r}"].add(tail + 1)
        neighbours[tail] = [vertices[a], tail + 1]
        neighbours[tail + 1] = [vertices[b]]
    labels = sorted(colours)
    form = pynauty.certificate(
        pynauty.Graph(
            len(vertices) + 2 * graph.number_of_edges(),
            adjacency_dict=neighbours,
            vertex_coloring=[colours[label] for label in labels],
        )
    )
    return (*((label, len(colours[label])) for label in labels), form)


def wl_hash(graph: nx.DiGraph) -> str:
    """Colour refinement both ways along every edge, for more rounds than the graphs here take."""
    both_ways = nx.Graph()
    both_ways.add_nodes_from((n, {"label": str(label)}) for n, label in graph.nodes(data="label"))
    both_ways.add_edges_from(
        (a, b, {"label": str(label)}) for a, b, label in graph.edges(data="label")
    )
    return nx.weisfeiler_lehman_graph_hash(
        both_ways, node_attr="label", edge_attr="label", iterations=16
    )
