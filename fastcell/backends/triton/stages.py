"""A step cut into stages, for hidden sizes whose weights don't fit beside the states.

A product or a mean needs whole rows of its factor, and a stage computes a few columns at a time; so
a factor is computed in an earlier stage and passed on in memory. So are the states, from step to
step, and what a later stage reads. All of that lies in one tensor `scratch` (slots, B, H) of
float32: two slots for each carry, taking turns as the old and the new one, then the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .plan import Argument, Plan

_WHOLE_ROWS = frozenset({"linear", "pullback", "row_mean"})


@dataclass(frozen=True)
class Stages:
    """The stage of each node, and what is passed on between stages."""

    plan: Plan
    levels: dict[int, int]
    passed: tuple[int, ...]

    @property
    def count(self) -> int:
        return 1 + max(self.levels.values())

    @property
    def slots(self) -> int:
        """How many matrices (B, H) `scratch` holds."""
        return 2 * len(self.plan.program.carries) + len(self.passed)

    def slot(self, index: int) -> int:
        """The slot of a value that is passed on."""
        return 2 * len(self.plan.program.carries) + self.passed.index(index)

    def nodes(self, stage: int) -> list[int]:
        """What the stage computes or loads, in order."""
        results = set(self.plan.results()) | set(self.passed)
        own = [i for i, level in self.levels.items() if level == stage]
        needed, stack = set[int](), [i for i in own if not is_free(self.plan, i) or i in results]
        while stack:
            index = stack.pop()
            if index not in needed:
                needed.add(index)
                if self.levels[index] == stage or is_free(self.plan, index):
                    stack += column_operands(self.plan, index)
        return sorted(needed)

    def inputs(self) -> list[Argument]:
        """The plan's, less the carries, which are in `scratch`."""
        carried = {name for name, _ in self.plan.program.carries}
        carried -= {str(n.param) for n in self.plan.nodes if n.op == "read" and n.value}
        return [a for a in self.plan.inputs() if a.role != "initial" or a.name not in carried]

    def outputs(self) -> list[Argument]:
        """The plan's, less the last carries, and `scratch`."""
        return [a for a in self.plan.outputs() if a.role != "final"] + [Argument("scratch")]


def cut(plan: Plan) -> Stages:
    """The plan's stages."""
    levels = dict[int, int]()
    for index in plan.computed:
        same = [levels[arg] for arg in column_operands(plan, index)]
        earlier = [_after(plan, levels, arg) for arg in row_operands(plan, index)]
        levels[index] = max([0, *same, *earlier])
    return Stages(plan, levels, tuple(sorted(_passed(plan, levels))))


def _after(plan: Plan, levels: dict[int, int], factor: int) -> int:
    """The first stage that can read whole rows of the factor."""
    return 0 if is_stored(plan, factor) else levels[factor] + 1


def _passed(plan: Plan, levels: dict[int, int]) -> Iterable[int]:
    passed = set[int]()
    for index in plan.computed:
        passed |= {arg for arg in row_operands(plan, index) if not is_stored(plan, arg)}
        operands = column_operands(plan, index)
        passed |= {a for a in operands if levels[a] < levels[index] and not is_free(plan, a)}
    return passed


def row_operands(plan: Plan, index: int) -> list[int]:
    """What the node reads whole rows of."""
    node = plan.nodes[index]
    if node.op == "row_mean":
        return [node.args[0]]
    return [factor for _, factor in plan.inner(index)] if node.op in _WHOLE_ROWS else []


def column_operands(plan: Plan, index: int) -> list[int]:
    """What the node reads in the columns that it is computed in."""
    if plan.nodes[index].op in _WHOLE_ROWS:
        base = plan.base(index)
        return [] if base is None else [base]
    return plan.operands(index)


def is_stored(plan: Plan, index: int) -> bool:
    """Whether the value's rows are in memory when a step begins."""
    return plan.nodes[index].op in ("read", "carry")


def is_free(plan: Plan, index: int) -> bool:
    """Whether every stage may have the value for itself: from memory, or made of parameters."""
    return is_stored(plan, index) or plan.is_narrow(index)
