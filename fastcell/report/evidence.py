"""What a store knows, by cell: its runs, why it was picked, what was expected of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import inf
from statistics import median
from typing import Any, NamedTuple

from .. import space
from ..ir import Cell
from ..language import parse
from ..library import CELLS
from ..results import HOPELESS, Result
from ..store import Store
from ..wording import label

GROUPS = {
    "top": "most promising",
    "passing": "random of those that pass",
    "random": "random of all",
}
"""Why cells were picked, as the plan has it and as readers do."""

_KNOWN = {cell.key: name for name, cell in CELLS.items()}


class Estimate(NamedTuple):
    """What the meta-model said of a cell; see `predictor`."""

    usable: float
    target: float
    spread: float

    @property
    def nmse(self) -> float:
        """The best validation NMSE to expect."""
        return float(10**self.target)


@dataclass(frozen=True)
class Trained:
    """A cell with its runs under one protocol, by seed."""

    runs: tuple[Result, ...]
    groups: tuple[str, ...]
    estimate: Estimate | None

    @property
    def first(self) -> Result:
        return self.runs[0]

    @property
    def name(self) -> str:
        """Of the library where it is one of its cells, else its label."""
        return _KNOWN.get(self.first.cell_key, label(self.first))

    @property
    def known(self) -> bool:
        """Whether it is a cell of the library."""
        return self.first.cell_key in _KNOWN

    @cached_property
    def cell(self) -> Cell:
        return parse(self.first.cell_text)

    @property
    def usable(self) -> bool:
        """Whether its first run learned the task: an NMSE below HOPELESS."""
        return best_of(self.first) < HOPELESS

    @property
    def validation(self) -> float:
        """The median over the seeds of the best validation NMSE; infinite where there is none."""
        return median(map(best_of, self.runs))

    @property
    def tests(self) -> list[float]:
        """The test NMSE of each run that has one."""
        return [run.test for run in self.runs if run.test is not None]


def best_of(result: Result) -> float:
    """The best validation NMSE, infinite for none."""
    return inf if result.best_validation is None else result.best_validation


@dataclass(frozen=True)
class Evidence:
    """A plan, empty for runs that no search asked for, and the cells, the best first."""

    plan: dict[str, Any]
    cells: tuple[Trained, ...]

    @classmethod
    def read(cls, store: Store) -> Evidence:
        """All that the store has."""
        plan = store.plan()
        plan = plan if "screening" in plan else {}
        runs = defaultdict[tuple[str, ...], list[Result]](list)
        for result in store.results():
            runs[result.cell_key, result.task, result.protocol.key].append(result)
        codes = _picked(plan)
        cells = (_trained(each, plan, codes[each[0].cell_key]) for each in runs.values())
        return cls(plan, tuple(sorted(cells, key=lambda cell: (cell.validation, cell.name))))

    @property
    def screening(self) -> dict[str, Any]:
        return dict(self.plan.get("screening", {}))

    def group(self, name: str) -> list[Trained]:
        """The trained cells that were picked so, the best first."""
        return [cell for cell in self.cells if name in cell.groups]

    @property
    def best(self) -> Trained | None:
        """The lowest median of the cells with most seeds, of the picked ones in a search."""
        found = [c for c in self.cells if c.tests and (c.groups or not self.plan)]
        return min(found, key=lambda c: (-len(c.runs), c.validation), default=None)

    @property
    def rivals(self) -> list[Trained]:
        """The cells of the library, trained under the best cell's protocol."""
        best = self.best
        return [
            cell
            for cell in self.cells
            if best and cell.known and cell is not best and cell.tests
            if cell.first.protocol == best.first.protocol
        ]


def _picked(plan: dict[str, Any]) -> defaultdict[str, list[int]]:
    """The codes that were picked, by key: several may be one cell, and a result has one of them."""
    codes = defaultdict[str, list[int]](list)
    for code in dict.fromkeys(code for group in plan.get("picked", {}).values() for code in group):
        codes[space.decode(code).key].append(code)
    return codes


def _trained(runs: list[Result], plan: dict[str, Any], codes: list[int]) -> Trained:
    picked, estimates = plan.get("picked", {}), plan.get("estimates", {})
    groups = tuple(name for name in GROUPS if set(codes) & set(picked.get(name, ())))
    said = next((estimates[str(code)] for code in codes if str(code) in estimates), None)
    return Trained(tuple(runs), groups, Estimate(*said) if said else None)
