"""A Program divided: what its kernel computes in the loop over time, and what is left to products
over all T * B rows at once, before and after the loop.

What the two hand each other lies side by side in wide sequences (T, B, slots * H):

    projected     of each linear that reads x, x's part of it and the bias
    gates         the values whose sums over all rows are gradients of parameters
    sources       what the linears read, where only the kernel has it

and the weights that the loop needs are packed in one tensor, a block (H, H) for each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...node import Node
from ...program import Program

NUMBERS = frozenset({"const", "scalar", "vector"})


class Block(NamedTuple):
    """The columns of a linear's weight that belong to one of its sources."""

    param: str
    position: int


class Argument(NamedTuple):
    """A tensor of the kernel, by role and name: ("sequence", "kept.i"), ("parameter", "g.bias").

    Roles: projected, weights, gates and sources, which need no name; sequence, initial and final;
    parameter.
    """

    role: str
    name: str = ""


@dataclass(frozen=True)
class Plan:
    """What the kernel of a Program computes, reads and writes; nodes by their index."""

    program: Program
    computed: tuple[int, ...]
    projected: tuple[int, ...]
    blocks: tuple[Block, ...]
    gates: tuple[int, ...]
    sources: tuple[int, ...]
    writes: tuple[tuple[str, int], ...]
    """The Program's, less what is added to them after the loop."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.program.nodes

    def is_input(self, index: int) -> bool:
        """Whether the node is x itself."""
        return _is_input(self.program, index)

    def inner(self, index: int) -> list[tuple[Block, int]]:
        """The products of a linear or a pullback that the loop computes: block and factor."""
        return _products(self.program, index)

    def operands(self, index: int) -> list[int]:
        """What the loop reads to compute the node."""
        return _operands(self.program, index)

    def is_narrow(self, index: int) -> bool:
        """Whether the value is the same for all rows: made of numbers and vectors alone."""
        node = self.nodes[index]
        inner = node.op in ("linear", "pullback", "row_mean", "read", "carry")
        return node.op in NUMBERS or (not inner and all(map(self.is_narrow, node.args)))

    def results(self) -> list[int]:
        """What leaves a step: written, or handed to the next one; each as often as it does."""
        pairs = [index for _, index in (*self.writes, *self.program.carries)]
        return [*pairs, *self.gates, *self.sources]

    def base(self, index: int) -> int | None:
        """What a pullback adds its products to."""
        node = self.nodes[index]
        return node.args[-1] if node.op == "pullback" and node.bias else None

    def inputs(self) -> list[Argument]:
        """What the kernel reads."""
        read = [self.nodes[i] for i in self.computed]
        arguments = [Argument("projected")] if self.projected else []
        arguments += [Argument("weights")] if self.blocks else []
        arguments += [Argument("parameter", name) for name in self.parameters()]
        sequences = dict.fromkeys(str(node.param) for node in read if node.op == "read")
        arguments += [Argument("sequence", name) for name in sequences]
        shifted = [str(node.param) for node in read if node.op == "read" and node.value]
        carried = [name for name, _ in self.program.carries]
        return arguments + [Argument("initial", name) for name in dict.fromkeys(shifted + carried)]

    def outputs(self) -> list[Argument]:
        """What the kernel writes."""
        arguments = [Argument("gates")] if self.gates else []
        arguments += [Argument("sources")] if self.sources else []
        arguments += [Argument("sequence", name) for name, _ in self.writes]
        return arguments + [Argument("final", name) for name, _ in self.program.carries]

    def parameters(self) -> list[str]:
        """Biases of the linears that x has no part in; scalars and vectors."""
        names = dict[str, None]()
        for index in self.computed:
            node = self.nodes[index]
            if node.op in ("scalar", "vector"):
                names[str(node.param)] = None
            elif node.op == "linear" and node.bias and index not in self.projected:
                names[f"{node.param}.bias"] = None
        return list(names)


def divide(program: Program, save: bool = True) -> Plan:
    """The Program's plan; without `save`, a forward pass writes its output and nothing else."""
    nodes = program.nodes
    output = program.carries[0][0]
    writes = tuple(w for w in _loop_writes(program) if save or w[0] == output)
    gates = tuple(_gates(program))
    sources = tuple(_sources(program))
    roots = [index for _, index in (*program.carries, *writes)]
    computed = _needed(program, [*roots, *gates, *sources])
    linears = [i for i in computed if nodes[i].op == "linear"]
    blocks = [block for index in computed for block, _ in _products(program, index)]
    return Plan(
        program=program,
        computed=computed,
        projected=tuple(i for i in linears if any(_is_input(program, a) for a in nodes[i].args)),
        blocks=tuple(dict.fromkeys(blocks)),
        gates=gates,
        sources=sources,
        writes=writes,
    )


def _is_input(program: Program, index: int) -> bool:
    node = program.nodes[index]
    return node.op == "read" and node.param == program.input_name


def _products(program: Program, index: int) -> list[tuple[Block, int]]:
    """Block and factor of each product but those with x, which come before the loop."""
    node = program.nodes[index]
    if node.op == "linear":
        pairs = [(Block(str(node.param), at), arg) for at, arg in enumerate(node.args)]
        return [(block, arg) for block, arg in pairs if not _is_input(program, arg)]
    return [(Block(*block), arg) for block, arg in zip(node.blocks, node.args, strict=False)]


def _loop_writes(program: Program) -> list[tuple[str, int]]:
    """The writes of the loop; of a pullback that comes after it, what it adds to."""
    writes = []
    for name, index in program.writes:
        node = program.nodes[index]
        if index not in program.after:
            writes.append((name, index))
        elif node.bias:
            writes.append((name, node.args[-1]))
    return writes


def _gates(program: Program) -> list[int]:
    """What is summed, each once; first the gradients of the linears that read x."""
    of_x = {s.node for s in program.sums if s.source is not None and _is_input(program, s.source)}
    nodes = dict.fromkeys(item.node for item in program.sums)
    return sorted(nodes, key=lambda node: node not in of_x)


def _sources(program: Program) -> list[int]:
    """The factors of weight gradients that are neither in memory nor parameters."""
    factors = dict.fromkeys(item.source for item in program.sums if item.source is not None)
    known = NUMBERS | {"read"}
    return [index for index in factors if program.nodes[index].op not in known]


def _needed(program: Program, roots: Sequence[int]) -> tuple[int, ...]:
    """The nodes that the roots depend on within the loop."""
    found, stack = set[int](), list(roots)
    while stack:
        index = stack.pop()
        if index not in found:
            found.add(index)
            stack += _operands(program, index)
    return tuple(sorted(found))


def _operands(program: Program, index: int) -> list[int]:
    """What the loop reads to compute the node."""
    node = program.nodes[index]
    if node.op == "linear":
        return [arg for _, arg in _products(program, index)]
    return list(node.args)
