"""The node of the cell graph, and the builder that interns nodes.

Grammar of `op`:
    input | state                      the step's x and previous states, always the first nodes
    const                              a number (`value`)
    scalar | vector                    a learnable () or (H,) parameter (`param`, initial `value`)
    linear(a, b, ...)                  W[a; b; ...] + bias, W (H, sum of widths) (`param`, `bias`)
    a unary, binary or row-wise op of `ops`

Elementwise nodes are interned: the same op of the same arguments is the same node. A parameter is
not: every written `linear`, `scalar` or `vector` is a node of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

LEARNABLE = frozenset({"scalar", "vector"})
PARAMETERS = LEARNABLE | {"linear"}
BROADCAST = frozenset({"const", "scalar"})


@dataclass(frozen=True, slots=True)
class Node:
    """One value of the graph; `args` are indices of earlier nodes."""

    op: str
    args: tuple[int, ...] = ()
    name: str | None = None
    """The variable that the text assigns it to, if any."""
    param: str | None = None
    value: float | None = None
    bias: bool = False
    blocks: tuple[tuple[str, int], ...] = ()
    """Of derivatives only (see `program`): a linear and one of its sources, per argument."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two nodes the same value."""
        return (self.op, self.args, self.param, self.value, self.bias, self.blocks)


class Builder:
    """Grows a list of interned nodes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.broadcast: list[bool] = []
        """Whether a node is one number for the whole row rather than a row of numbers."""
        self._index: dict[tuple[object, ...], int] = {}

    def add(self, node: Node) -> int:
        """The index of the node, new or known; a known unnamed one takes the new one's name."""
        index = self._index.get(node.identity)
        if index is None:
            index = self._index[node.identity] = len(self.nodes)
            self.nodes.append(node)
            self.broadcast.append(self._is_broadcast(node))
        elif node.name:
            self.rename(index, node.name)
        return index

    def rename(self, index: int, name: str) -> None:
        """Names an unnamed value; the first name stays, and numbers have none."""
        node = self.nodes[index]
        if node.name is None and node.op != "const":
            self.nodes[index] = replace(node, name=name)

    def _is_broadcast(self, node: Node) -> bool:
        elementwise = bool(node.args) and node.op != "linear"
        return node.op in BROADCAST or (elementwise and all(self.broadcast[a] for a in node.args))


def prune(
    nodes: Sequence[Node], sources: int, outputs: Sequence[int]
) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """Drops what reaches no output, and renumbers: named values as written, each after its parts.

    The first `sources` nodes (input and states) stay where they are.
    """
    live = _reachable(nodes, outputs)
    named = [i for i in range(sources, len(nodes)) if i in live and nodes[i].name]
    moved = _depth_first(nodes, range(sources), [*named, *outputs])
    kept = [replace(nodes[i], args=tuple(moved[arg] for arg in nodes[i].args)) for i in moved]
    return tuple(kept), tuple(moved[output] for output in outputs)


def _reachable(nodes: Sequence[Node], outputs: Iterable[int]) -> set[int]:
    live, stack = set[int](), list(outputs)
    while stack:
        index = stack.pop()
        if index not in live:
            live.add(index)
            stack.extend(nodes[index].args)
    return live


def _depth_first(
    nodes: Sequence[Node], first: Iterable[int], roots: Iterable[int]
) -> dict[int, int]:
    """Old index -> new index in a post-order walk; iterative, since a text may be long."""
    order = {index: index for index in first}
    for root in roots:
        stack = [root]
        while stack:
            index = stack[-1]
            missing = [arg for arg in nodes[index].args if arg not in order]
            if not missing:
                stack.pop()
                order.setdefault(index, len(order))
            stack.extend(reversed(missing))
    return order
