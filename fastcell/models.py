"""Whole models around a cell."""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from .fold import fold, fold_parameters
from .ir import Cell
from .nn import Recurrent
from .parameters import CellParameters
from .scan import resolve


class SequenceRegressor(nn.Module):
    """Numbers from a sequence: y = readout(h_T), h = recurrent(projection(u)).

        u            (T, B, channels)
        projection   linear, channels -> H, the same at every step
        recurrent    the cell over the sequence, H -> H, the projection folded into its weights
        readout      linear, H -> outputs, of the last step's output alone
        y            (B, outputs)

    Raises ShapeError when a size does not fit.
    """

    def __init__(self, cell: Cell, channels: int, hidden_size: int, outputs: int) -> None:
        super().__init__()
        # Drawn before the cell's, so that a seed gives every cell the same two.
        self.projection = nn.Linear(channels, hidden_size)
        self.readout = nn.Linear(hidden_size, outputs)
        self.recurrent = Recurrent(cell, hidden_size, hidden_size)

    def forward(self, u: Tensor) -> Tensor:
        """(T, B, channels) to (B, outputs)."""
        cell, (layer,) = self.recurrent.cell, self.recurrent.layers
        parameters = fold_parameters(cell, self.projection, cast(CellParameters, layer).tensors())
        u = functional.pad(u, (0, 1), value=1.0)
        zeros = u.new_zeros(u.shape[1], self.recurrent.hidden_size)
        states = tuple(zeros for _ in cell.states)
        _, (h, *_) = resolve(self.recurrent.backend, u)(fold(cell), u, states, parameters)
        return cast(Tensor, self.readout(h))
