"""A plan's kernels, ready to be launched: modules loaded, tensors allocated, grids laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import cache, resident, streamed
from .cost import Choice
from .module import Storage, Tile, kernel_name
from .plan import Argument, Plan
from .stages import cut


class Kernel:
    """The resident strategy: one launch, carries in registers."""

    def __init__(self, plan: Plan, tile: Tile, storage: Storage) -> None:
        self.plan, self.tile = plan, tile
        self.name = kernel_name(plan.program)
        self.arguments = [*plan.inputs(), *plan.outputs()]
        self.source = self.write(storage)
        self.module = cache.load(self.name, self.source)

    def write(self, storage: Storage) -> str:
        """The module's source."""
        return resident.write(self.plan, self.tile, storage)

    def names(self) -> list[str]:
        """The kernels that are launched."""
        return [self.name]

    def run(self, tensors: dict[Argument, Tensor], x: Tensor) -> None:
        """Runs all steps on x's device and the current stream; `tensors` gets what it lacks."""
        for argument in self.plan.outputs():
            if argument not in tensors:
                tensors[argument] = x.new_empty(self._shape(argument, *x.shape[:2]))
        with torch.cuda.device_of(x):
            self.launch(tensors, *x.shape[:2])

    def launch(self, tensors: dict[Argument, Tensor], steps: int, batch: int) -> None:
        """The launches, of tensors that are all there."""
        self.call(self.names()[0], (self._row_tiles(batch),), self._given(tensors), steps, batch)

    def call(
        self, name: str, grid: tuple[int, ...], given: Sequence[Tensor], *numbers: int
    ) -> None:
        """Launches one kernel."""
        function: Any = getattr(self.module, name)
        options = {} if torch.version.hip else {"maxnreg": self.tile.registers}
        function[grid](*given, *numbers, num_warps=self.tile.warps, **options)

    def _given(self, tensors: dict[Argument, Tensor]) -> list[Tensor]:
        return [readable(tensors[argument]) for argument in self.arguments]

    def _row_tiles(self, batch: int) -> int:
        return -(-batch // self.tile.rows)

    def _shape(self, argument: Argument, steps: int, batch: int) -> tuple[int, ...]:
        hidden = self.plan.program.hidden_size
        match argument.role:
            case "gates":
                return steps, batch, len(self.plan.gates) * hidden
            case "sources":
                return steps, batch, len(self.plan.sources) * hidden
            case "sequence":
                return steps, batch, hidden
        return batch, hidden


class Streamed(Kernel):
    """The streamed strategy: one launch, carries in `scratch`."""

    def __init__(self, plan: Plan, tile: Tile, storage: Storage) -> None:
        self.stages = cut(plan)
        super().__init__(plan, tile, storage)
        self.arguments = [*self.stages.inputs(), *self.stages.outputs()]

    def write(self, storage: Storage) -> str:
        return streamed.write(self.stages, self.tile, storage)

    def launch(self, tensors: dict[Argument, Tensor], steps: int, batch: int) -> None:
        names = [name for name, _ in self.plan.program.carries]
        like = tensors[Argument("initial", names[0])]
        shape = self.stages.slots, batch, self.plan.program.hidden_size
        scratch = torch.empty(shape, dtype=torch.float32, device=like.device)
        for number, name in enumerate(names):
            scratch[2 * number] = tensors[Argument("initial", name)]
        given = self._given({**tensors, Argument("scratch"): scratch})
        self.launch_stages(given, steps, batch)
        for number, name in enumerate(names):
            tensors[Argument("final", name)].copy_(scratch[2 * number + steps % 2])

    def launch_stages(self, given: Sequence[Tensor], steps: int, batch: int) -> None:
        """All steps, with everything in its place."""
        self.call(self.names()[0], (self._row_tiles(batch),), given, steps, batch)


class Stepwise(Streamed):
    """The stepwise strategy: a launch for each stage of each step."""

    def write(self, storage: Storage) -> str:
        return streamed.write(self.stages, self.tile, storage, stepwise=True)

    def names(self) -> list[str]:
        return streamed.stage_kernels(self.stages)

    def launch_stages(self, given: Sequence[Tensor], steps: int, batch: int) -> None:
        columns = -(-self.plan.program.hidden_size // self.tile.columns)
        grid = self._row_tiles(batch), columns
        for step in range(steps):
            for name in self.names():
                self.call(name, grid, given, steps, batch, step)


STRATEGIES = {"resident": Kernel, "streamed": Streamed, "stepwise": Stepwise}


def build(plan: Plan, storage: Storage, choice: Choice) -> Kernel:
    """The plan's kernel, as chosen."""
    return STRATEGIES[choice.strategy](plan, choice.tile, storage)


def readable(tensor: Tensor) -> Tensor:
    """The tensor, or a copy, contiguous and on a boundary of 16 bytes: one kernel serves all."""
    tensor = tensor.resolve_neg().contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor
