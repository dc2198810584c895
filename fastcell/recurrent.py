"""`Recurrent`: any cell over whole sequences, with the conveniences of nn.LSTM."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .backends import streaming
from .backends.cpu import rows
from .errors import ShapeError
from .ir import Cell
from .parameters import CellParameters
from .scan import AUTO, check_backend, may_stream, resolve

State: TypeAlias = Tensor | tuple[Tensor, ...]
"""One tensor (layers * directions, B, H) per state of the cell; bare when the cell has one."""


class Recurrent(nn.Module):
    """A cell run over a sequence, in one or several layers and one or both directions.

        output[t], states[t] = cell(x[t], states[t - 1])

    Called as (x, state=None) -> (output, state), with D = 2 directions if bidirectional, else 1:

        x       (T, B, I), (B, T, I) with batch_first, or unbatched (T, I); T may be 0
        output  as x, with H * D features: the last layer's first state at every step
        state   (num_layers * D, B, H), unbatched (num_layers * D, H), for each state of the cell:
                a tuple in the cell's order, or a bare tensor when the cell has one state; zeros
                unless given

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
        self.cell = cell if bias else _without_bias(cell)
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

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Runs the sequence: (output, state), with the shapes that the class gives."""
        self._check_input(x)
        batched, time = x.dim() == 3, self._time_axis(x)
        sequence = x.movedim(time, 0) if batched else x.unsqueeze(1)
        states = self._initial_states(sequence, state, batched)
        output, finals = self._run(sequence, states)
        if not batched:
            return output.squeeze(1), _bare_if_one([final.squeeze(1) for final in finals])
        return output.movedim(0, time), _bare_if_one(finals)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One time step: x (B, I) or unbatched (I,) to (output (B, H) or (H,), state).

        Raises ShapeError in a bidirectional module.
        """
        if self.bidirectional:
            mend = "a backward direction needs the whole sequence in one call"
            raise ShapeError(f"step: expected one direction, found bidirectional=True: {mend}")
        if not isinstance(x, Tensor) or x.dim() not in (1, 2):
            raise ShapeError(f"x: expected one step, (B, I) or (I,); found {_shape(x)}")
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
            states = _as_tuple(state, self.cell)
        layers = [layer.tensors() for layer in self._layers()]
        stepper = self._stepper
        if stepper is None or stepper.facts != streaming.facts(self.cell, x, states, layers):
            x, states, stepper = self._prepare(x, states, layers)
        output, finals = stepper(x, states)
        return output, _bare_if_one(finals)

    def _prepare(
        self, x: Tensor, states: tuple[Tensor, ...], layers: list[dict[str, Tensor]]
    ) -> tuple[Tensor, tuple[Tensor, ...], streaming.Stepper]:
        """The tensors, checked and as the engine can read them, and a Stepper for such."""
        batched = x.dim() == 2
        sequence = x if batched else x.unsqueeze(0)
        self._check_input(sequence)
        self._initial_states(sequence, states, batched)
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

    def _run(self, x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x (T, B, I), states S of (layers * D, B, H) -> output (T, B, H * D), states as given."""
        finals, layers = [], self._layers()
        for first in range(0, len(layers), self.directions):
            if first and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
            outputs = []
            for index in range(first, first + self.directions):
                initial = tuple(state[index] for state in states)
                output, final = self._run_direction(layers[index], x, initial, index > first)
                outputs.append(output)
                finals.append(final)
            x = torch.cat(outputs, dim=-1) if self.bidirectional else outputs[0]
        return x, tuple(torch.stack(each) for each in zip(*finals, strict=True))

    def _run_direction(
        self, layer: CellParameters, x: Tensor, states: tuple[Tensor, ...], backward: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        sequence = x.flip(0) if backward else x
        output, finals = _scan(self.backend, self.cell, sequence, states, layer.tensors())
        return output.flip(0) if backward else output, finals

    def _initial_states(self, x: Tensor, state: State | None, batched: bool) -> tuple[Tensor, ...]:
        """The states as S of (layers * D, B, H), for x (B, I) or (T, B, I)."""
        shape = (self.num_layers * self.directions, x.shape[-2], self.hidden_size)
        if state is None:
            return tuple(x.new_zeros(shape) for _ in self.cell.states)
        given = shape if batched else (shape[0], shape[2])
        states = _as_tuple(state, self.cell)
        for node, tensor in zip(self.cell.states, states, strict=True):
            if tensor.shape != given or tensor.dtype != x.dtype or tensor.device != x.device:
                _check_state(f"state '{node.name}'", tensor, given, x)
        return states if batched else tuple(tensor.unsqueeze(1) for tensor in states)

    def _time_axis(self, x: Tensor) -> int:
        return 1 if self.batch_first and x.dim() == 3 else 0

    def _check_input(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise ShapeError(f"x: expected a tensor, found {type(x).__name__}")
        if x.dim() not in (2, 3):
            layout = "(B, T, I)" if self.batch_first else "(T, B, I)"
            raise ShapeError(f"x: expected {layout} or unbatched (T, I); found {_shape(x)}")
        if x.shape[-1] != self.input_size:
            expected = f"expected input_size = {self.input_size} features in the last axis"
            raise ShapeError(f"x: {expected}; found {x.shape[-1]} in {_shape(x)}")
        _check_dtype("x", x, self._layers()[0].dtype or x.dtype)

    def _check_sizes(self) -> None:
        self.cell.check_sizes(self.input_size, self.hidden_size)
        if self.cell.uses_input_elementwise and self.bidirectional and self.num_layers > 1:
            features, size = 2 * self.hidden_size, self.hidden_size
            raise ShapeError(
                f"cell '{self.cell.name}' uses {self.cell.nodes[0].name} elementwise, so each layer"
                f" takes H = {size} features; found {features} from the two directions below:"
                f" use modules of one layer with nn.Linear({features}, {size}) between them"
            )


def _scan(
    backend: str,
    cell: Cell,
    x: Tensor,
    states: tuple[Tensor, ...],
    parameters: dict[str, Tensor],
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The one place where a module meets an engine: see `scan.Scan`."""
    return resolve(backend, x)(cell, x, states, parameters)


def _without_bias(cell: Cell) -> Cell:
    return replace(cell, nodes=tuple(replace(node, bias=False) for node in cell.nodes))


def _bare_if_one(states: Sequence[Tensor]) -> State:
    return tuple(states) if len(states) > 1 else states[0]


def _as_tuple(state: State, cell: Cell) -> tuple[Tensor, ...]:
    """The given state as one tensor for each state of the cell."""
    states = (state,) if isinstance(state, Tensor) else state
    fits = isinstance(states, tuple | list) and len(states) == len(cell.outputs)
    if fits and all(isinstance(each, Tensor) for each in states):
        return tuple(states)
    names = [str(node.name) for node in cell.states]
    expected = f"a tuple ({', '.join(names)})" if len(names) > 1 else "a tensor"
    found = type(state).__name__
    if isinstance(state, tuple | list):
        found += f" ({', '.join(type(each).__name__ for each in state)})"
    raise ShapeError(f"state: expected {expected}; found {found}")


def _check_state(name: str, tensor: Tensor, shape: tuple[int, ...], x: Tensor) -> None:
    """Raises ShapeError unless the tensor has that shape, and the dtype and device of x."""
    if tensor.shape != shape:
        meaning = "(layers * directions, B, H)" if len(shape) == 3 else "(layers * directions, H)"
        raise ShapeError(f"{name}: expected {shape}, which is {meaning}; found {_shape(tensor)}")
    _check_dtype(name, tensor, x.dtype)
    if tensor.device != x.device:
        mend = f"move it with .to('{x.device}')"
        raise ShapeError(f"{name}: expected {x.device}, as x is; found {tensor.device}: {mend}")


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


def _check_dtype(name: str, tensor: Tensor, expected: torch.dtype) -> None:
    """Raises ShapeError for another dtype than expected; autocast mixes them on purpose."""
    if tensor.dtype != expected and not _is_autocast(tensor.device.type):
        mend = f"convert it, or the module, with .to({tensor.dtype})"
        raise ShapeError(f"{name}: expected {expected}, found {tensor.dtype}: {mend}")


def _is_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
