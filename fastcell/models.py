"""Whole models around a cell."""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from .errors import ShapeError
from .fold import fold, fold_parameters
from .ir import Cell
from .library import lswm
from .long_memory import LongWorkingMemory
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


class LSWM(nn.Module):
    """A sequence of tokens to d features: a short working memory, then a long one.

        logits = layernorm(softsign(sum_t H_long[t])),  H_long = H (H^T H) / sqrt(d)

        tokens      (T, B), whole numbers below vocab_size
        embedding   vocab_size -> d
        short       the cell over the sequence, d -> d: H (T, B, d)
        long        `LongWorkingMemory`, pooled: (B, d)
        norm        layer normalisation of the d features
        logits      (B, d): no classifier follows, feature k is the logit of token k

    `cell` is the step: `library.lswm` or, modified, `library.lswm_cec`. With 18 tokens, d = 128
    and lswm it has 68,609 parameters. Raises ShapeError when a size does not fit. Source: the
    network "Embedding -> Short Working Memory -> Long Working Memory -> LayerNorm".
    """

    def __init__(self, vocab_size: int, d_model: int, cell: Cell = lswm) -> None:
        super().__init__()
        if not 1 <= vocab_size <= d_model:
            mend = "each token's logit is one of the d_model features"
            raise ShapeError(
                f"vocab_size: expected 1 to d_model = {d_model}: {mend}; found {vocab_size}"
            )
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.short = Recurrent(cell, d_model, d_model)
        self.long = LongWorkingMemory(pooled=True)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        """(T, B) to (B, d)."""
        h, _ = self.short(self.embedding(tokens))
        return cast(Tensor, self.norm(self.long(h)))
