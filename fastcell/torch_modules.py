"""torch.nn's recurrent modules on fastcell's engines, to be put in their place.

They inherit torch's base classes, and with them attributes, parameters, initialisation, repr and
pickling: a checkpoint of the one loads into the other, both ways. What they compute is torch's too.
The layers are no subclasses of nn.LSTM and its like, which torch.compile refuses to follow.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence

from .errors import ShapeError
from .layout import layout_of
from .scan import AUTO, resolve
from .stack import run_layers
from .states import State, bare_if_one, check_dtype, initial_states, shape_of
from .torch_weights import PROJECTED, torch_cell, torch_parameters


class _Layers(nn.RNNBase):
    """What LSTM, GRU and RNN share: all but the states' shapes."""

    def forward(
        self, input: Tensor | PackedSequence, hx: State | None = None
    ) -> tuple[Tensor | PackedSequence, State]:
        """(output, state), with the shapes that torch.nn's module of the same name gives."""
        if not isinstance(input, PackedSequence) and input.dim() not in (2, 3):
            expected = "(B, T, I)" if self.batch_first else "(T, B, I)"
            found = shape_of(input)
            raise ShapeError(f"input: expected {expected} or unbatched (T, I); found {found}")
        layout = layout_of(input, self.batch_first)
        x = layout.sequence
        _check_features(x, self.input_size, cast(Tensor, self.weight_ih_l0))
        states = layout.sort(self._initial_states(x, layout.batch, hx))
        run = partial(self._run, layout.batch_sizes)
        dropout = self.dropout if self.training else 0.0
        output, finals = run_layers(run, x, states, 2 if self.bidirectional else 1, dropout)
        return layout.restore(output), bare_if_one(layout.unsort(finals))

    def _run(
        self,
        batch_sizes: Tensor | None,
        index: int,
        reverse: bool,
        x: Tensor,
        states: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One direction of one layer over the sequence."""
        mode = PROJECTED if self.proj_size else self.mode
        stacked = [getattr(self, name) for name in self._all_weights[index]]
        parameters = torch_parameters(mode, self.hidden_size, *stacked)
        scan, cell = resolve(AUTO, x), torch_cell(mode, self.bias)
        return scan(cell, x, states, parameters, batch_sizes, reverse)

    def _state_sizes(self) -> dict[str, int]:
        """The width of each state, by name."""
        return {"h": self.hidden_size}

    def _initial_states(self, x: Tensor, batch: int | None, hx: State | None) -> tuple[Tensor, ...]:
        """The states, S of (layers * D, B, .) for a batch or, with None, of (layers * D, .)."""
        rows = () if batch is None else (batch,)
        layers, sizes = self.num_layers * (2 if self.bidirectional else 1), self._state_sizes()
        shapes = [(layers, *rows, size) for size in sizes.values()]
        axes = "(layers * directions, B, H)" if rows else "(layers * directions, H)"
        return initial_states(list(sizes), shapes, axes, x, hx)


class LSTM(_Layers):
    """nn.LSTM: the same arguments, weights and results, `proj_size` included.

        i, f, o = sigmoid(W[x; h] + b), each its own;  g = tanh(W[x; h] + b)
        c' = f * c + i * g;  h' = o * tanh(c'), or W_hr (o * tanh(c')) with proj_size

    Called as (input, (h, c)=None) -> (output, (h, c)); see torch.nn.LSTM for the shapes.

    Raises what nn.LSTM raises for bad arguments, ShapeError when a tensor does not fit.
    Source: Hochreiter and Schmidhuber 1997; Sak et al. 2014 for the projection.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("LSTM", *args, **options)

    def _state_sizes(self) -> dict[str, int]:
        return {"h": self.proj_size or self.hidden_size, "c": self.hidden_size}

    def _run(
        self,
        batch_sizes: Tensor | None,
        index: int,
        reverse: bool,
        x: Tensor,
        states: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        if not self.proj_size:
            return super()._run(batch_sizes, index, reverse, x, states)
        h, c = states
        h = pad(h, (0, self.hidden_size - self.proj_size))
        output, (h, c) = super()._run(batch_sizes, index, reverse, x, (h, c))
        return output[..., : self.proj_size], (h[..., : self.proj_size], c)


class GRU(_Layers):
    """nn.GRU: the same arguments, weights and results.

        r, z = sigmoid(W[x; h] + b), each its own
        n = tanh(W_x x + b_x + r * (W_h h + b_h));  h' = (1 - z) * n + z * h

    Called as (input, h=None) -> (output, h); see torch.nn.GRU for the shapes.

    Raises what nn.GRU raises for bad arguments, ShapeError when a tensor does not fit.
    Source: Cho et al. 2014, with the reset gate after the product.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        _refuse_projection(options)
        super().__init__("GRU", *args, **options)


class RNN(_Layers):
    """nn.RNN: the same arguments, weights and results; nonlinearity "tanh" or "relu".

        h' = tanh(W[x; h] + b)

    Called as (input, h=None) -> (output, h); see torch.nn.RNN for the shapes.

    Raises what nn.RNN raises for bad arguments, ShapeError when a tensor does not fit.
    Source: Elman, "Finding structure in time", 1990.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **options: Any,
    ) -> None:
        _refuse_projection(options)
        _check_nonlinearity(nonlinearity)
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **options)
        self.nonlinearity = nonlinearity


class LSTMCell(nn.LSTMCell):
    """nn.LSTMCell, one step of LSTM: (input (B, I) or (I,), (h, c)=None) -> (h, c).

    Raises ShapeError when a tensor does not fit.
    """

    def forward(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, Tensor]:
        """The new (h, c), of (B, H) or (H,)."""
        h, c = _step(self, "LSTM", ["h", "c"], input, hx)
        return h, c


class GRUCell(nn.GRUCell):
    """nn.GRUCell, one step of GRU: (input (B, I) or (I,), h=None) -> h.

    Raises ShapeError when a tensor does not fit.
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new h, of (B, H) or (H,)."""
        (h,) = _step(self, "GRU", ["h"], input, hx)
        return h


class RNNCell(nn.RNNCell):
    """nn.RNNCell, one step of RNN: (input (B, I) or (I,), h=None) -> h.

    Raises ShapeError when a tensor does not fit, or there is no such nonlinearity.
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new h, of (B, H) or (H,)."""
        _check_nonlinearity(self.nonlinearity)
        (h,) = _step(self, f"RNN_{self.nonlinearity.upper()}", ["h"], input, hx)
        return h


def _step(
    cell: nn.RNNCellBase, mode: str, names: list[str], x: Tensor, hx: State | None
) -> tuple[Tensor, ...]:
    """One step of x (B, I) or (I,): the new states, S of (B, H) or (H,)."""
    if x.dim() not in (1, 2):
        raise ShapeError(f"input: expected one step, (B, I) or (I,); found {shape_of(x)}")
    _check_features(x, cell.input_size, cell.weight_ih)
    shape, axes = (*x.shape[:-1], cell.hidden_size), "(B, H)" if x.dim() == 2 else "(H,)"
    states = initial_states(names, [shape] * len(names), axes, x, hx)
    stacked = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    parameters = torch_parameters(mode, cell.hidden_size, *stacked[: 4 if cell.bias else 2])
    if x.dim() == 1:
        x, states = x.unsqueeze(0), tuple(state.unsqueeze(0) for state in states)
    scan = resolve(AUTO, x)
    _, finals = scan(torch_cell(mode, cell.bias), x.unsqueeze(0), states, parameters)
    return finals if len(shape) == 2 else tuple(final.squeeze(0) for final in finals)


def _check_features(x: Tensor, input_size: int, weight: Tensor) -> None:
    if x.shape[-1] != input_size:
        expected = f"expected input_size = {input_size} features in the last axis"
        raise ShapeError(f"input: {expected}; found {x.shape[-1]} in {shape_of(x)}")
    check_dtype("input", x, weight.dtype)


def _check_nonlinearity(name: str) -> None:
    if name not in ("tanh", "relu"):
        raise ShapeError(f"nonlinearity: expected 'tanh' or 'relu', found {name!r}")


def _refuse_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ShapeError("proj_size: only an LSTM has one; found it in GRU or RNN")
