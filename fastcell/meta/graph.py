"""An ensemble of graph networks on the cell itself: values pass messages along what they read.

    v_i <- silu(W_self v_i + sum over relations r of W_r * mean of v_j, j read by i through r)

Nodes are the eight sources and h', c'; relations are context, value and sum, and all three back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .dataset import Dataset, Floats
from .model import Estimate, ensemble

NODES, RELATIONS = 10, 6
MEMBERS, WIDTH, ROUNDS, STEPS = 3, 24, 3, 200
RATE, DECAY = 5e-3, 1e-2


def adjacency(codes: NDArray[np.int64]) -> Tensor:
    """(N,) to (N, RELATIONS, NODES, NODES): [r, i, j] is 1 where i reads j through r."""
    read = np.zeros((len(codes), 3, NODES, NODES), dtype=np.float32)
    for source in range(8):
        for gate in range(3):
            field = codes >> 11 * gate & 2047
            read[:, 0, 4 + gate, source] = field >> source & 1
            read[:, 1, 4 + gate, source] = field >> 8 == source
        for node, shift in ((7, 33), (8, 41), (9, 49)):
            read[:, 2, node, source] = codes >> shift + source & 1
    read[:, 0, 3, :2] = 1  # g reads x and h
    read[:, 2, 1, 8] = read[:, 2, 2, 9] = 1  # the states of the next step
    return torch.from_numpy(np.concatenate([read, read.swapaxes(2, 3)], axis=1))


class GraphNetwork(nn.Module):
    """(N, RELATIONS, NODES, NODES) to (N, 2): a logit and a target."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(NODES, WIDTH) / 4)
        self.rounds = nn.ModuleList(
            nn.Linear((1 + RELATIONS) * WIDTH, WIDTH) for _ in range(ROUNDS)
        )
        self.readout = nn.Linear(NODES * WIDTH, 2)

    def forward(self, read: Tensor) -> Tensor:
        """See the class."""
        value = self.start.expand(len(read), NODES, WIDTH)
        for layer in self.rounds:
            messages = torch.einsum("nrij,njw->nirw", read, value).flatten(2)
            value = value + functional.silu(layer(torch.cat([value, messages], dim=-1)))
        value = functional.dropout(value.flatten(1), 0.2, self.training)
        return cast(Tensor, self.readout(value))


@dataclass
class GraphModel:
    """Members differ in their start."""

    name = "graph"

    members: tuple[GraphNetwork, ...] = ()

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            self.members = tuple(_fit(data) for _ in range(MEMBERS))

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Mean over the members; the spread is their standard deviation."""
        with torch.no_grad():
            results = torch.stack([member(adjacency(codes)) for member in self.members])
        logit, value = results.unbind(-1)
        return ensemble(logit.sigmoid().numpy(), value.numpy())


def _fit(data: Dataset) -> GraphNetwork:
    read, targets = adjacency(data.codes), torch.from_numpy(data.targets)
    usable, network = torch.from_numpy(data.usable).float(), GraphNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        logit, value = network(read).unbind(-1)
        loss = functional.binary_cross_entropy_with_logits(logit, usable)
        loss = loss + functional.mse_loss(value, targets)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    return network.eval()
