"""A generated module: what every strategy's source has in common."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...program import Program
from .expression import FUNCTIONS, helper, is_helper
from .names import Names
from .plan import Argument, Plan

_OURS = FUNCTIONS | {"load", "dot", "dot_real", "row_mean"}
_WIDTH = 100


@dataclass(frozen=True)
class Tile:
    """How a kernel is cut: rows of the batch in a program, columns of H and depth of products."""

    rows: int = 16
    columns: int = 64
    depth: int = 32
    warps: int = 8

    @property
    def registers(self) -> int:
        """The most a thread can have; unless told, the assembler spills rather than take them."""
        return min(255, 2048 // self.warps)


@dataclass(frozen=True)
class Storage:
    """The dtype of every tensor, and the precision of the products of float32."""

    dtype: str = "float32"
    precision: str = "ieee"

    @property
    def bytes(self) -> int:
        """Of a number."""
        return 4 if self.dtype == "float32" else 2


def padded(size: int) -> int:
    """The width of a tile for `size` real columns: a power of two from 16 on, as `tl.dot` asks."""
    return max(16, 1 << (size - 1).bit_length())


def kernel_name(program: Program) -> str:
    """The name of a kernel's function: lstm_backward."""
    return f"{program.name}_{'backward' if program.reverse else 'forward'}"


def module(about: str, constants: Sequence[str], ops: Iterable[str], body: Sequence[str]) -> str:
    """The source: docstring, imports, constants, the operations that need a function, kernels."""
    text = "\n".join(body)
    helpers = [line for op in sorted(set(ops)) if is_helper(op) for line in ["", "", *helper(op)]]
    whole = "\n".join([*helpers, text])
    called = sorted(name for name in _OURS if re.search(rf"(?<![\w.]){name}\(", whole))
    lines = [f'"""{about}', '"""', "", "import triton", "import triton.language as tl"]
    if called:
        lines += ["", f"from fastcell.backends.triton.functions import {', '.join(called)}"]
    return "\n".join([*lines, "", *constants, *helpers, "", "", text, ""])


def parameters(plan: Plan, names: Names) -> list[str]:
    """The tensors of a kernel, a line each, with their shapes."""
    return [f"    {name},  # {_shape(plan, a)}" for a, name in names.pointers.items()]


def _shape(plan: Plan, argument: Argument) -> str:
    written = ", written" if argument in plan.outputs() else ""
    match argument.role:
        case "projected":
            return f"(T, B, {len(plan.projected)} H): {_linears(plan)}"
        case "weights":
            return f"({len(plan.blocks)}, H, H)"
        case "gates" | "sources":
            slots = plan.gates if argument.role == "gates" else plan.sources
            return f"(T, B, {len(slots)} H){written}"
        case "sequence":
            return f"(T, B, H){written}"
        case "scratch":
            return "(slots, B, H) in float32, what stages and steps pass on"
        case "parameter":
            scalars = {str(n.param) for n in plan.nodes if n.op == "scalar"}
            return "()" if argument.name in scalars else "(H,)"
    return f"(B, H){written}"


def _linears(plan: Plan) -> str:
    names = [str(plan.nodes[index].param) for index in plan.projected]
    return textwrap.shorten(f"the part of x in {', '.join(names)}", 60, placeholder=" ...")
