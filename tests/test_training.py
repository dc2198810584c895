"""Training, against a loop over torch.nn.RNN written here, and its promises of sameness."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fastcell
from fastcell import ShapeError, TaskError
from fastcell.library import adding_dag, lstm, rnn
from fastcell.results import Protocol, Run
from fastcell.tasks.adding import ADDING, data
from fastcell.training import _Fit, build_model, derived_seed, nmse, train


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads that wait for each other at every small product take longer than one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


TINY = Protocol(epochs=2, batch_size=256, hidden_size=8)


def run_of(cell, protocol=TINY, seed=0):
    return Run(cell, "adding", protocol, seed)


class TorchRNN(nn.Module):
    """The same model from torch's own parts, with the same weights at its start."""

    def __init__(self, model, hidden):
        super().__init__()
        self.projection = nn.Linear(2, hidden)
        self.rnn = nn.RNN(hidden, hidden)
        self.readout = nn.Linear(hidden, 1)
        self.projection.load_state_dict(model.projection.state_dict())
        self.readout.load_state_dict(model.readout.state_dict())
        own = dict(model.recurrent.named_parameters())
        weight, bias = own["layers.0.g.weight"], own["layers.0.g.bias"]
        with torch.no_grad():
            self.rnn.weight_ih_l0.copy_(weight[:, :hidden])
            self.rnn.weight_hh_l0.copy_(weight[:, hidden:])
            self.rnn.bias_ih_l0.copy_(bias)
            self.rnn.bias_hh_l0.zero_()
        self.rnn.bias_hh_l0.requires_grad_(False)

    def forward(self, u):
        return self.readout(self.rnn(self.projection(u))[0][-1])


def by_hand(protocol, seed):
    """The protocol step by step: validation NMSE of each epoch, test NMSE of the best."""
    parts = data()
    model = TorchRNN(build_model(run_of(rnn, protocol, seed), ADDING), protocol.hidden_size)
    model.double()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = kinds[protocol.optimizer](parameters, lr=protocol.learning_rate)
    generator = torch.Generator().manual_seed(derived_seed(seed, "order"))

    def score(part):
        predicted = model(part.inputs.double())[:, 0].detach().numpy()
        return np.mean((predicted - part.targets[:, 0].numpy()) ** 2) * 6

    curve, tests = [], []
    for _ in range(protocol.epochs):
        order = torch.randperm(1024, generator=generator)
        for start in range(0, 1024, protocol.batch_size):
            batch = order[start : start + protocol.batch_size]
            predicted = model(parts.training.inputs[:, batch].double())
            loss = ((predicted - parts.training.targets[batch].double()) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = math.sqrt(sum(float((p.grad**2).sum()) for p in parameters))
            if protocol.clip and norm > protocol.clip:
                for parameter in parameters:
                    parameter.grad *= protocol.clip / norm
            optimizer.step()
        curve.append(score(parts.validation))
        tests.append(score(parts.test))
    return curve, tests[int(np.argmin(curve))]


@pytest.mark.parametrize(
    "protocol",
    [
        replace(TINY, dtype="float64"),
        replace(TINY, dtype="float64", optimizer="sgd", learning_rate=0.1, clip=0.05),
        replace(TINY, dtype="float64", optimizer="adamw", batch_size=300, clip=0, hidden_size=7),
    ],
    ids=["adam", "sgd clipped", "adamw, uneven batches, unclipped"],
)
def test_equals_a_loop_over_torch_rnn(protocol):
    curve, test = by_hand(protocol, seed=3)
    result = train(rnn, protocol=protocol, seed=3)
    # Scaling by clip / norm against torch's clip / (norm + 1e-6): one part in 20,000 at 0.05.
    np.testing.assert_allclose(result.validation, curve, rtol=1e-5)
    assert result.test == pytest.approx(test, rel=1e-5)
    assert (result.status, result.error, result.epochs) == ("done", None, protocol.epochs)


def test_nmse_of_a_constant_guess():
    """Guessing c gives (mean((y - c)^2)) / (1/6), which is near 1 at the mean."""

    class Guess(nn.Module):
        def forward(self, u):
            return torch.full((u.shape[1], 1), 0.25)

    part = data().test
    expected = np.mean((part.targets.numpy().astype(np.float64) - 0.25) ** 2) * 6
    assert nmse(Guess(), part, ADDING.variance) == pytest.approx(expected, rel=1e-12)


def test_the_same_twice_whatever_torch_is_set_to():
    torch.manual_seed(1)
    once = train(lstm, protocol=TINY)
    torch.manual_seed(2)
    torch.set_num_threads(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        again = train(lstm, protocol=TINY)
    assert torch.get_num_threads() == 3
    assert replace(again, seconds=once.seconds) == once
    assert torch.equal(torch.get_rng_state(), before)


def test_a_seed_gives_all_cells_the_same_projection_and_readout():
    first, second = (build_model(run_of(cell), ADDING) for cell in (rnn, adding_dag))
    other = build_model(run_of(rnn, seed=1), ADDING)
    for part in ("projection", "readout"):
        for one, two, three in zip(
            getattr(first, part).parameters(),
            getattr(second, part).parameters(),
            getattr(other, part).parameters(),
            strict=True,
        ):
            assert torch.equal(one, two)
            assert not torch.equal(one, three)


def test_seeds_and_their_purposes_differ():
    seeds = {derived_seed(seed, use) for seed in range(100) for use in ("weights", "order")}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert train(rnn, protocol=TINY).validation != train(rnn, protocol=TINY, seed=1).validation


def test_the_best_epoch_is_the_one_tested():
    """A run that ends at the best epoch of a longer one has the same weights, so the same test."""
    long = train(rnn, protocol=replace(TINY, epochs=6, learning_rate=0.05))
    assert long.best_epoch < 6, "expected a protocol that gets worse at its end"
    protocol = replace(TINY, epochs=long.best_epoch, learning_rate=0.05)
    short = train(rnn, protocol=protocol)
    assert short.validation == long.validation[: long.best_epoch]
    assert short.test == long.test
    assert long.best_validation == min(long.validation)


def test_divergence_is_a_result():
    cell = fastcell.parse("def runaway(x, h):\n    return exp(exp(exp(linear(x, h)) + 4))")
    result = train(cell, protocol=TINY)
    assert (result.status, result.epochs, result.validation) == ("diverged", 1, ())
    assert result.error in ("training loss was nan in epoch 1", "training loss was inf in epoch 1")
    assert (result.best_validation, result.best_epoch, result.test) == (None, None, None)


def test_divergence_after_good_epochs_keeps_them(monkeypatch):
    """What was best before the third epoch goes wrong is judged."""
    good = train(rnn, protocol=TINY)
    own = _Fit.training_epoch
    monkeypatch.setattr(_Fit, "training_epoch", lambda fit: own(fit) if fit.epoch < 3 else math.inf)
    result = train(rnn, protocol=replace(TINY, epochs=5))
    assert (result.status, result.epochs) == ("diverged", 3)
    assert result.error == "training loss was inf in epoch 3"
    assert (result.validation, result.test) == (good.validation, good.test)


def test_epochs_are_told():
    told = []
    result = train(rnn, protocol=TINY, on_epoch=lambda *seen: told.append(seen))
    assert told == list(enumerate(result.validation, start=1))


def test_result_says_what_was_trained():
    result = train(adding_dag, protocol=replace(TINY, epochs=1))
    assert result.id == run_of(adding_dag, replace(TINY, epochs=1)).id
    assert result.parameters == adding_dag.parameter_count(8, 8)
    assert result.seconds > 0
    assert result.threads == 1
    assert result.versions == f"fastcell {fastcell.__version__}, torch {torch.__version__}"


def test_public_names():
    assert fastcell.train is train
    assert fastcell.Protocol is Protocol


def test_what_is_refused():
    with pytest.raises(TaskError, match="task: expected one of adding"):
        train(rnn, task="copying", protocol=TINY)
    with pytest.raises(TaskError, match="seed: expected a whole number"):
        train(rnn, protocol=TINY, seed=-1)
    with pytest.raises(ShapeError, match="cell"):
        build_model(run_of("not a cell"), ADDING)
