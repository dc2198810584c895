"""Where a kernel's values come from and go to, as source: pointers, masks, and rows of a step.

here, inside    a program's rows and columns in a (B, H) matrix, and which of them there are
start, at       offsets of the first of its rows: in a matrix, and in the step's own
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from .names import Names
from .plan import Argument, Plan


class Places:
    """The places of one kernel's tensors."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan, self.names = plan, names
        reads = [plan.nodes[i] for i in plan.computed]
        shifted = [str(n.param) for n in reads if n.op == "read" and n.value]
        self.shifted = list(dict.fromkeys(shifted))

    def pointer(self, role: str, name: str = "") -> str:
        return self.names.pointers[Argument(role, name)]

    def parameter(self, name: str) -> str:
        """The variable of a parameter that is a vector or a number."""
        return self.names.named(f"parameter {name}", name.replace(".", "_"))

    def is_number(self, name: str) -> bool:
        """Whether the parameter is a single number."""
        return any(node.op == "scalar" and node.param == name for node in self.plan.nodes)

    def parameters(self) -> list[str]:
        """Statements that load the vectors and numbers."""
        lines = []
        for name in self.plan.parameters():
            pointer, variable = self.pointer("parameter", name), self.parameter(name)
            if self.is_number(name):
                lines.append(f"{variable} = tl.load({pointer}).to(tl.float32)")
            else:
                lines.append(f"{variable} = load({pointer} + column, real)")
        return lines

    def step(self) -> list[str]:
        """Statements at the start of a step: its rows in the wide sequences, and those before."""
        plan, lines = self.plan, list[str]()
        slots = {"projected": plan.projected, "gates": plan.gates, "sources": plan.sources}
        for name, held in slots.items():
            if held:
                rows = f"{times(len(held))}(at + row * H) + column"
                lines.append(f"{name}_now = {self.pointer(name)} + {rows}")
        for name in self.shifted:
            rows, initial = self.pointer("sequence", name), self.pointer("initial", name)
            earlier = f"{rows} + at - stride if t < T - 1 else {initial} + start"
            lines.append(f"{self.before(name)} = {earlier}")
        return lines

    def before(self, name: str) -> str:
        """The rows of the step before."""
        return self.names.named(f"before {name}", f"{name}_before")

    def read(self, index: int) -> str:
        """The rows that a `read` reads."""
        node = self.plan.nodes[index]
        name = str(node.param)
        return self.before(name) if node.value else f"{self.pointer('sequence', name)} + at"

    def slot(self, name: str, slots: Sequence[int], index: int) -> str:
        """The pointers of a value in its slot of a wide sequence."""
        slot = slots.index(index)
        return f"{name}_now + {times(slot)}H" if slot else f"{name}_now"

    def written(self, index: int) -> list[str]:
        """The pointers of every place that the value is written to."""
        plan = self.plan
        named = [self.pointer("sequence", name) for name, node in plan.writes if node == index]
        places = [f"{pointer} + at + here" for pointer in named]
        for name, held in (("gates", plan.gates), ("sources", plan.sources)):
            places += [self.slot(name, held, index)] if index in held else []
        return places


def times(count: int) -> str:
    """A factor before a product: nothing for 1."""
    return f"{count} * " if count != 1 else ""


def indent(lines: Sequence[str], levels: int = 1) -> list[str]:
    """The lines, further in."""
    return [" " * 4 * levels + line for line in lines]


def needed(assignments: Sequence[str], rest: Sequence[str]) -> list[str]:
    """Those of the assignments that the rest, or a later one of them, reads."""
    kept = list(rest)
    for line in reversed(assignments):
        if mentions(kept, line.split(" = ")[0]):
            kept.insert(0, line)
    return kept[: len(kept) - len(rest)]


def mentions(lines: Sequence[str], name: str) -> bool:
    """Whether the name is anywhere in the lines."""
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def call(name: str, arguments: Sequence[str], width: int = 80) -> list[str]:
    """A call, on as many lines as it takes."""
    listed = ", ".join(arguments)
    if len(name) + len(listed) + 2 <= width:
        return [f"{name}({listed})"]
    return [f"{name}(", *indent(textwrap.wrap(listed, width - 4)), ")"]
