"""Whole models around a cell."""

from typing import cast

from torch import Tensor, nn

from .ir import Cell
from .nn import Recurrent


class SequenceRegressor(nn.Module):
    """Numbers from a sequence: y = readout(h_T), h = recurrent(projection(u)).

        u            (T, B, channels)
        projection   linear, channels -> H, the same at every step
        recurrent    the cell over the sequence, H -> H
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
        output, _ = self.recurrent(self.projection(u))
        return cast(Tensor, self.readout(output[-1]))
