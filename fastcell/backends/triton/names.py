"""Names for the pointers and the values of a kernel: the cell's own where nobody else has them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from .expression import FUNCTIONS
from .plan import Argument, Block, Plan

_FUNCTIONS = {"load", "dot", "dot_real", "row_mean", *FUNCTIONS}
_CONSTANTS = {"H", "ROWS", "COLUMNS", "DEPTH", "PADDED", "PRECISION", "T", "B", "tl", "triton"}
_PLACES = {"row", "column", "real", "first", "inside", "here", "start", "stride", "block", "square"}
_STEPS = {"t", "at", "left", "k", "deep", "there", "whole"}
_WIDE = {"projected_now", "gates_now", "sources_now"}
_RESERVED = frozenset(_FUNCTIONS | _CONSTANTS | _PLACES | _STEPS | _WIDE)
_SUFFIX = {"sequence": "_rows", "initial": "_first", "final": "_last", "parameter": "_given"}


class Names:
    """Every name of a kernel, no two alike."""

    def __init__(self, plan: Plan, arguments: Sequence[Argument]) -> None:
        self.plan = plan
        self.taken = set(_RESERVED)
        ops = {node.op for node in plan.nodes}
        self.taken |= ops
        self.pointers = {a: self.fresh(_pointer(a)) for a in arguments}
        self.blocks = {block: self.fresh(self._block(block)) for block in plan.blocks}
        self.variables: dict[str, str] = {}

    def fresh(self, wanted: str) -> str:
        """The wanted name, with as many underscores after it as it takes."""
        name = re.sub(r"\W", "", wanted)
        while name in self.taken or keyword.iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name

    def named(self, key: str, wanted: str) -> str:
        """The variable of `key`: always the same, and the wanted name if it can be had."""
        if key not in self.variables:
            self.variables[key] = self.fresh(wanted)
        return self.variables[key]

    def _block(self, block: Block) -> str:
        """w_i_h: the weights of linear i for its source h."""
        source = self._sources().get(block)
        name = None if source is None else self.plan.nodes[source].name
        return f"w_{block.param}_{name or block.position}"

    def _sources(self) -> dict[Block, int]:
        """What each block multiplies in the forward pass."""
        program = self.plan.program
        forward = {b: arg for i in self.plan.computed for b, arg in self.plan.inner(i)}
        sums = [item for item in program.sums if item.source is not None]
        backward = {
            Block(item.param.removesuffix(".weight"), item.position): int(item.source or 0)
            for item in sums
        }
        return backward if program.reverse else forward


def _pointer(argument: Argument) -> str:
    name = argument.name.replace(".", "_")
    if argument.name.startswith("kept."):
        return name
    return f"{name}{_SUFFIX.get(argument.role, '')}" or argument.role
