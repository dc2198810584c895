"""LSTM, GRU and LSWM on branching chains, by the protocol of LSWM's source, for many seeds.

    400 updates, each on 64 new chains of one hop: all of a batch ask for the first end, or all for
    the second, in turn; Adam, learning rate 4e-4, weight decay 0.0099999

What is measured, by its name in a result:

    loss, accuracy     of the last batch, which asks for the first end, before its update
    first_test         whether both answers to 3 → 7, 3 → 12 are right
    second_test        to 7 → 12 → 3, 7 → 3 → 12, longer than what was trained on
    third_test         to 7 → 12 → 3 → 7 → 3, 7 → 3 → 12, which showed its author the seed's part
    fresh              accuracy on 1,000 new chains of one hop
    extrapolated       accuracy on 1,000 new chains of two hops
    seconds            of the 400 updates, drawing the batches included

The source gives one run of each, and does not say how LSTM and GRU are wired. Its GRU's 68,880
parameters are those of Embedding(18) -> nn.GRU(105) -> LayerNorm, so the last step's output is
normalised here, and its features are the logits. The same with nn.LSTM(91) has 68,796; the 68,609
that the source gives it is LSWM's number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..language import parse
from ..library import lswm_cec
from ..models import LSWM
from ..nn import Recurrent
from ..tasks import Examples
from ..tasks.chains import ARROW, ASK_FIRST, ASK_LAST, VOCABULARY, branching_multi_hop
from ..training import derived_seed

EPOCHS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 400, 64, 4e-4, 0.0099999
FRESH = 1000
TURN = 50
"""Updates of one model before the next has its turn: a slow moment of the machine hits all."""

TESTS = {
    "first_test": ([3, ARROW, 7, 3, ARROW, 12], (7, 12)),
    "second_test": ([7, ARROW, 12, ARROW, 3, 7, ARROW, 3, ARROW, 12], (3, 12)),
    "third_test": (
        [7, ARROW, 12, ARROW, 3, ARROW, 7, ARROW, 3, 7, ARROW, 3, ARROW, 12],
        (3, 12),
    ),
}
"""Chains, and the answers to ASK_FIRST and ASK_LAST."""

# As torch.nn has them, with two biases for a gate: counts and first weights are the source's.
LSTM = parse("""
def lstm(x, h, c):
    i = sigmoid(linear(x) + linear(h))
    f = sigmoid(linear(x) + linear(h))
    g = tanh(linear(x) + linear(h))
    o = sigmoid(linear(x) + linear(h))
    c_new = f * c + i * g
    return o * tanh(c_new), c_new
""")
GRU = parse("""
def gru(x, h):
    r = sigmoid(linear(x) + linear(h))
    z = sigmoid(linear(x) + linear(h))
    n_x = linear(x)
    n_h = linear(h)
    n = tanh(n_x + r * n_h)
    return (1 - z) * n + z * h
""")


class LastStep(nn.Module):
    """logits = layernorm(h_T): tokens (T, B) to (B, H), h_T the layer's last output.

    `layer` is called as nn.LSTM is, on (T, B, H).
    """

    def __init__(self, layer: nn.Module, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.layer = layer
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """(T, B) to (B, H)."""
        output, _ = self.layer(self.embedding(tokens))
        return cast(Tensor, self.norm(output[-1]))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "LSTM-91": lambda: LastStep(Recurrent(LSTM, 91, 91), VOCABULARY, 91),
    "GRU-105": lambda: LastStep(Recurrent(GRU, 105, 105), VOCABULARY, 105),
    "LSWM-128": lambda: LSWM(VOCABULARY, 128),
    "modified LSWM-128": lambda: LSWM(VOCABULARY, 128, lswm_cec),
    "torch LSTM-91": lambda: LastStep(nn.LSTM(91, 91), VOCABULARY, 91),
}
"""All through fastcell but the last, which is there for the time it takes."""


@dataclass(frozen=True)
class Outcome:
    """One model, trained from one seed; the module's docstring says what is measured."""

    model: str
    seed: int
    parameters: int
    loss: float
    accuracy: float
    first_test: bool
    second_test: bool
    third_test: bool
    fresh: float
    extrapolated: float
    seconds: float


def run(seeds: int, epochs: int = EPOCHS) -> Iterator[list[Outcome]]:
    """For each seed from 0 on, an outcome for each model; the models train in turns.

    A seed decides the first weights and all chains, which are the same for every model.
    """
    for seed in range(seeds):
        fits = [_Fit(name, seed) for name in MODELS]
        for first in range(0, epochs, TURN):
            for fit in fits:
                fit.train(first, min(first + TURN, epochs))
        yield [fit.outcome() for fit in fits]


class _Fit:
    """A model in training."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed, self.seconds = name, seed, 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "weights"))
            self.model = MODELS[name]()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )
        self.batches = _generator(seed, "batches")
        self.loss = self.accuracy = 0.0

    def train(self, first: int, last: int) -> None:
        """The updates number first + 1 to last."""
        began = time.perf_counter()
        for epoch in range(first + 1, last + 1):
            question = ASK_FIRST if epoch % 2 == 0 else ASK_LAST
            batch = branching_multi_hop(BATCH, 1, self.batches, question)
            logits = self.model(batch.inputs)
            loss = functional.cross_entropy(logits, batch.targets)
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            self.optimizer.step()
        self.seconds += time.perf_counter() - began
        self.loss, self.accuracy = loss.item(), _accuracy(logits, batch.targets)

    def outcome(self) -> Outcome:
        """What has been measured, and the tests of the trained model."""
        generator = _generator(self.seed, "fresh")
        tests = {name: self.score(_test(*test)) == 1 for name, test in TESTS.items()}
        fresh, longer = (branching_multi_hop(FRESH, hops, generator) for hops in (1, 2))
        return Outcome(
            model=self.name,
            seed=self.seed,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            loss=self.loss,
            accuracy=self.accuracy,
            fresh=self.score(fresh),
            extrapolated=self.score(longer),
            seconds=round(self.seconds, 3),
            **tests,
        )

    def score(self, examples: Examples) -> float:
        """The share of right answers."""
        with torch.no_grad():
            return _accuracy(self.model(examples.inputs), examples.targets)


def _test(chain: list[int], answers: tuple[int, int]) -> Examples:
    """The chain with each of the questions."""
    asked = [[*chain, question] for question in (ASK_FIRST, ASK_LAST)]
    return Examples(torch.tensor(asked).T, torch.tensor(answers))


def _accuracy(logits: Tensor, targets: Tensor) -> float:
    return (logits.argmax(dim=1) == targets).double().mean().item()


def _generator(seed: int, purpose: str) -> torch.Generator:
    return torch.Generator().manual_seed(derived_seed(seed, purpose))
