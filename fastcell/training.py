"""Training a cell on a task under a protocol: the same numbers at every call.

All that is random follows from the run's seed alone: the weights and the order of the examples,
the same for every cell. torch's global generator is left as it was, and a run computes with one
thread, so neither the number of runs at a time nor their order changes a result.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from .ir import Cell
from .models import SequenceRegressor
from .results import DEFAULT_PROTOCOL, THREADS, Protocol, Result, Run, Status, plateaued
from .tasks import Data, Examples, Task, find_task

OnEpoch: TypeAlias = Callable[[int, float], None]
"""Called after each epoch with its number, from 1, and its validation NMSE."""

_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def train(
    cell: Cell,
    task: str = "adding",
    protocol: Protocol = DEFAULT_PROTOCOL,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Trains the cell: every epoch on the training data, then judged on the validation data.

        NMSE = MSE / Var[target]

    The weights of the epoch with the lowest validation NMSE are judged on the test data. A loss or
    a validation error that is not finite ends the run, with the status "diverged"; the protocol's
    patience, with the status "plateau".

    Raises TaskError for an unknown task or a seed out of range, ShapeError for a cell that does
    not fit.
    """
    run = Run(cell, task, protocol, seed)
    fit = _Fit(run, find_task(task))
    began = time.perf_counter()
    with _own_threads(), torch.enable_grad():
        fit.epochs(on_epoch or (lambda epoch, nmse: None))
        test = fit.test()
    return Result.of(
        run,
        fit.status,
        error=fit.error,
        epochs=fit.epoch,
        validation=tuple(fit.curve),
        test=test,
        seconds=round(time.perf_counter() - began, 3),
    )


def derived_seed(seed: int, purpose: str) -> int:
    """A seed of its own for each use of a run's seed: 63 bits of a hash."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def build_model(run: Run, task: Task) -> SequenceRegressor:
    """The model at its start, drawn from the run's seed; in float32 whatever the dtype."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(run.seed, "weights"))
        model = SequenceRegressor(run.cell, task.channels, run.protocol.hidden_size, task.outputs)
    return model.to(getattr(torch, run.protocol.dtype))


def nmse(model: nn.Module, examples: Examples, variance: float) -> float:
    """MSE / variance over all examples, in one batch, summed in float64."""
    with torch.no_grad():
        error = model(examples.inputs).double() - examples.targets.double()
        return float(error.square().mean()) / variance


@contextmanager
def _own_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Fit:
    """The state of a run in progress."""

    def __init__(self, run: Run, task: Task) -> None:
        self.protocol = run.protocol
        self.variance = task.variance
        self.data = _cast(task.data(), getattr(torch, run.protocol.dtype))
        self.model = build_model(run, task)
        self.parameters = list(self.model.parameters())
        self.optimizer = _OPTIMIZERS[run.protocol.optimizer](
            self.parameters, lr=run.protocol.learning_rate, fused=True
        )
        self.order = torch.Generator().manual_seed(derived_seed(run.seed, "order"))
        self.epoch = 0
        self.curve: list[float] = []
        self.best = math.inf
        self.best_weights: dict[str, Tensor] = {}
        self.status: Status = "done"
        self.error: str | None = None

    def epochs(self, on_epoch: OnEpoch) -> None:
        """All epochs, or as many as stay finite and hopeful."""
        while self.epoch < self.protocol.epochs:
            self.epoch += 1
            loss = self.training_epoch()
            error = nmse(self.model, self.data.validation, self.variance)
            for what, value in (("training loss", loss), ("validation error", error)):
                if not math.isfinite(value):
                    self.status = "diverged"
                    self.error = f"{what} was {value} in epoch {self.epoch}"
                    return
            self.keep(error)
            on_epoch(self.epoch, error)
            if plateaued(self.curve, self.protocol.patience):
                self.status = "plateau"
                return

    def training_epoch(self) -> float:
        """One pass over the training data in a new order; the sum of its losses.

        A loss that is not finite stays in the sum, which is read once an epoch rather than a step.
        """
        examples = self.data.training
        order = torch.randperm(examples.targets.shape[0], generator=self.order)
        total = torch.zeros((), dtype=examples.targets.dtype)
        sequences = examples.inputs.transpose(0, 1).contiguous()  # so that each is one copy
        for batch in torch.split(order, self.protocol.batch_size):
            total += self.step(sequences[batch].transpose(0, 1), examples.targets[batch])
        return total.item()

    def step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """One update of the weights; the loss before it."""
        loss = functional.mse_loss(self.model(inputs), targets)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        if self.protocol.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.protocol.clip)
        self.optimizer.step()
        return loss.detach()

    def keep(self, error: float) -> None:
        """Notes an epoch's validation error, and the weights if it is the best so far."""
        self.curve.append(error)
        if error < self.best:
            self.best = error
            state = self.model.state_dict()
            self.best_weights = {name: tensor.clone() for name, tensor in state.items()}

    def test(self) -> float | None:
        """Test NMSE of the best weights, None when no epoch ended."""
        if not self.best_weights:
            return None
        self.model.load_state_dict(self.best_weights)
        error = nmse(self.model, self.data.test, self.variance)
        return error if math.isfinite(error) else None


def _cast(data: Data, dtype: torch.dtype) -> Data:
    parts = (data.training, data.validation, data.test)
    return Data(*(Examples(part.inputs.to(dtype), part.targets.to(dtype)) for part in parts))
