"""`Recurrent`: any cell over whole sequences, with the conveniences of nn.LSTM."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .backends import streaming
from .backends.cpu import rows
from .errors import ShapeError
from .ir import Cell
from .layout import layout_of
from .parameters import CellParameters
from .scan import AUTO, check_backend, may_stream, resolve
from .stack import run_layers
from .states import State, as_tuple, bare_if_one, check_dtype, initial_states, shape_of


class Recurrent(nn.Module):
    """A cell run over a sequence, in one or several layers and one or both directions.

        output[t], states[t] = cell(x[t], states[t - 1])

    Called as (x, state=None, lengths=None, return_all_states=False) -> (output, state), with D = 2
    directions if bidirectional, else 1:

        x       (T, B, I), (B, T, I) with batch_first, or unbatched (T, I); T may be 0; or a
                PackedSequence
        output  as x, with H * D features: the last layer's first state at every step
        state   (num_layers * D, B, H), unbatched (num_layers * D, H), for each state of the cell:
                a tuple in the cell's order, or a bare tensor when the cell has one state; zeros
                unless given
        lengths (B,), 1 to T: of a row, the steps past its length are not run, and are zeros in
                the output; its final states are those after its last step

    With `return_all_states` it returns (output, state, states): every state at every step, each
    (num_layers * D, *layout of the output, H), as in (num_layers * D, T, B, H) or, packed,
    (num_layers * D, N, H).

    Lengths and a PackedSequence cost in proportion to the sum of the lengths.

    Layer k, direction d has the parameters `layers.{k * D + d}.NAME`, as in layers.0.g.weight; a
    NAME that nn.Module keeps for itself, such as `forward`, takes an underscore at its end.
    `dropout` is the probability of zeroing an output value between layers, in training.

    Raises ShapeError when an option, a size or a tensor does not fit, BackendError when there is
    no such backend.
    """

    def __init__(
        self,
        cell: Cell,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        backend: str = AUTO,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_backend(backend)
        _check_options(cell, num_layers, dropout)
        self.cell = cell if bias else cell.without_bias()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.backend = backend
        self._stepper: streaming.Stepper | None = None
        self.cell.text  # noqa: B018  made now: a tracer follows what is not yet there
        self._check_sizes()
        widths = [input_size] + [hidden_size * self.directions] * (num_layers - 1)
        self.layers = nn.ModuleList(
            CellParameters(self.cell, width, hidden_size, device, dtype)
            for width in widths
            for _ in range(self.directions)
        )

    @property
    def directions(self) -> int:
        """2 if bidirectional, else 1."""
        return 2 if self.bidirectional else 1

    def reset_parameters(self) -> None:
        """Weights and biases as nn.Linear draws them, scalars and vectors at their start."""
        for layer in self._layers():
            layer.reset_parameters()

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: State | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        return_all_states: bool = False,
    ) -> Any:
        """Runs the sequence: (output, state) or (output, state, states), as the class says."""
        if not isinstance(x, PackedSequence):
            self._check_input(x)
        layout = layout_of(x, self.batch_first, lengths)
        self._check_features(layout.sequence)
        states = layout.sort(self._initial_states(layout.sequence, layout.batch, state))
        history: list[Tensor] | None = [] if return_all_states else None
        run = partial(self._run, history, layout.batch_sizes)
        dropout = self.dropout if self.training else 0.0
        output, finals = run_layers(run, layout.sequence, states, self.directions, dropout)
        results = layout.restore(output), bare_if_one(layout.unsort(finals))
        if history is None:
            return results
        return *results, self._states_of([layout.padded(each) for each in history])

    def _states_of(self, history: list[Tensor]) -> State:
        """The states of every run side by side (..., S * H), as S of (layers * D, ..., H)."""
        parts = [each.split(self.hidden_size, dim=-1) for each in history]
        return bare_if_one([torch.stack(each) for each in zip(*parts, strict=True)])

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One time step: x (B, I) or unbatched (I,) to (output (B, H) or (H,), state).

        Raises ShapeError in a bidirectional module.
        """
        if self.bidirectional:
            mend = "a backward direction needs the whole sequence in one call"
            raise ShapeError(f"step: expected one direction, found bidirectional=True: {mend}")
        if not isinstance(x, Tensor) or x.dim() not in (1, 2):
            raise ShapeError(f"x: expected one step, (B, I) or (I,); found {shape_of(x)}")
        drops = self.training and self.dropout > 0 and self.num_layers > 1
        if may_stream(self.backend, x) and not drops:
            return self._stream(x, state)
        time = 1 if self.batch_first and x.dim() == 2 else 0
        output, state = self(x.unsqueeze(time), state)
        return output.squeeze(time), state

    def _stream(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """A step in inference, straight on the engine: all is checked when the facts change."""
        if state is None:
            shape = (self.num_layers, *x.shape[:-1], self.hidden_size)
            states = tuple(x.new_zeros(shape) for _ in self.cell.states)
        else:
            states = as_tuple(state, self._state_names())
        layers = [layer.tensors() for layer in self._layers()]
        stepper = self._stepper
        if stepper is None or stepper.facts != streaming.facts(self.cell, x, states, layers):
            x, states, stepper = self._prepare(x, states, layers)
        output, finals = stepper(x, states)
        return output, bare_if_one(finals)

    def _prepare(
        self, x: Tensor, states: tuple[Tensor, ...], layers: list[dict[str, Tensor]]
    ) -> tuple[Tensor, tuple[Tensor, ...], streaming.Stepper]:
        """The tensors, checked and as the engine can read them, and a Stepper for such."""
        batched = x.dim() == 2
        self._check_features(x)
        self._initial_states(x, x.shape[0] if batched else None, states)
        x, states = rows(x), tuple(map(rows, states))
        stepper = streaming.Stepper(self.cell, x, states, layers)
        if not stepper.copies:
            self._stepper = stepper
        return x, states, stepper

    def extra_repr(self) -> str:
        """The cell, its sizes, and the options that differ from the default, as nn.LSTM's."""
        defaults = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
            "backend": AUTO,
        }
        options = {name: getattr(self, name) for name in defaults}
        changed = [f"{name}={value}" for name, value in options.items() if value != defaults[name]]
        return ", ".join([self.cell.name, str(self.input_size), str(self.hidden_size), *changed])

    def _layers(self) -> list[CellParameters]:
        # Past nn.Module's lookups, for the sake of single steps.
        layers = cast(nn.ModuleList, self._modules["layers"])
        return cast(list[CellParameters], list(layers._modules.values()))

    def _run(
        self,
        history: list[Tensor] | None,
        batch_sizes: Tensor | None,
        index: int,
        reverse: bool,
        x: Tensor,
        states: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One direction of one layer over the sequence; a history takes all its states."""
        parameters = self._layers()[index].tensors()
        scan, all_states = resolve(self.backend, x), history is not None
        output, finals = scan(self.cell, x, states, parameters, batch_sizes, reverse, all_states)
        if history is None:
            return output, finals
        history.append(output)
        return output[..., : self.hidden_size], finals

    def _initial_states(
        self, x: Tensor, batch: int | None, state: State | None
    ) -> tuple[Tensor, ...]:
        """The states, S of (layers * D, B, H) for a batch or, with None, of (layers * D, H)."""
        rows = () if batch is None else (batch,)
        shape = (self.num_layers * self.directions, *rows, self.hidden_size)
        axes = "(layers * directions, B, H)" if rows else "(layers * directions, H)"
        names = self._state_names()
        return initial_states(names, [shape] * len(names), axes, x, state)

    def _state_names(self) -> list[str]:
        return [str(node.name) for node in self.cell.states]

    def _time_axis(self, x: Tensor) -> int:
        return 1 if self.batch_first and x.dim() == 3 else 0

    def _check_input(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise ShapeError(f"x: expected a tensor, found {type(x).__name__}")
        if x.dim() not in (2, 3):
            layout = "(B, T, I)" if self.batch_first else "(T, B, I)"
            raise ShapeError(f"x: expected {layout} or unbatched (T, I); found {shape_of(x)}")

    def _check_features(self, x: Tensor) -> None:
        if x.shape[-1] != self.input_size:
            expected = f"expected input_size = {self.input_size} features in the last axis"
            raise ShapeError(f"x: {expected}; found {x.shape[-1]} in {shape_of(x)}")
        check_dtype("x", x, self._layers()[0].dtype or x.dtype)

    def _check_sizes(self) -> None:
        self.cell.check_sizes(self.input_size, self.hidden_size)
        if self.cell.uses_input_elementwise and self.bidirectional and self.num_layers > 1:
            features, size = 2 * self.hidden_size, self.hidden_size
            raise ShapeError(
                f"cell '{self.cell.name}' uses {self.cell.nodes[0].name} elementwise, so each layer"
                f" takes H = {size} features; found {features} from the two directions below:"
                f" use modules of one layer with nn.Linear({features}, {size}) between them"
            )


def _check_options(cell: Cell, num_layers: int, dropout: float) -> None:
    if not isinstance(cell, Cell):
        mend = "fastcell.parse(text) makes one, fastcell.library has some"
        raise ShapeError(f"cell: expected a Cell, found {type(cell).__name__}: {mend}")
    if not isinstance(num_layers, int) or num_layers < 1:
        raise ShapeError(f"num_layers: expected a whole number >= 1, found {num_layers!r}")
    if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ShapeError(f"dropout: expected a probability, from 0 to 1, found {dropout!r}")
    if dropout and num_layers == 1:
        message = f"dropout={dropout} has no effect with num_layers=1: it acts between layers"
        warnings.warn(message, stacklevel=3)
