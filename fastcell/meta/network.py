"""An ensemble of small networks on the features: all members at once, by batched products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .dataset import Dataset, Floats
from .model import Estimate, ensemble

MEMBERS, WIDTH, STEPS = 8, 48, 200
RATE, DECAY, DROPOUT = 3e-3, 3e-2, 0.2


class Members(nn.Module):
    """E networks of two hidden layers: rows (N, columns) to (E, N, 2), a logit and a target.

    Rows are standardised first; columns that never vary count nothing.
    """

    def __init__(self, columns: int, members: int = MEMBERS, width: int = WIDTH) -> None:
        super().__init__()
        sizes = (columns, width, width, 2)
        self.weights = nn.ParameterList(
            torch.randn(members, i, o) / math.sqrt(i) for i, o in pairwise(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(members, 1, o) for o in sizes[1:])
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def standardise(self, rows: Tensor) -> None:
        """Takes mean and scale from the rows."""
        deviation = rows.std(dim=0)
        self.mean = rows.mean(dim=0)
        self.scale = torch.where(deviation > 0, 1 / deviation.clamp_min(1e-6), 0.0)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, columns) to (E, N, 2)."""
        value = ((rows - self.mean) * self.scale).clamp(-4, 4)
        value = value.expand(len(self.weights[0]), *value.shape)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer:
                value = functional.dropout(functional.silu(value), DROPOUT, self.training)
            value = torch.baddbmm(bias, value, weight)
        return value


@dataclass
class NetworkModel:
    """Fitted by AdamW on a bootstrap sample for each member."""

    name = "network"

    members: Members | None = None

    def fit(self, data: Dataset, seed: int) -> None:
        """Fits from scratch; the seed fixes the result."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            self.members = self._fit(data)

    def _fit(self, data: Dataset) -> Members:
        rows, targets = torch.from_numpy(data.rows), torch.from_numpy(data.targets)
        members = Members(rows.shape[1])
        members.standardise(rows)
        weights = torch.distributions.Multinomial(len(data), torch.ones(len(data))).sample(
            (MEMBERS,)
        )
        usable = torch.from_numpy(data.usable).float().expand_as(weights)
        optimizer = torch.optim.AdamW(members.parameters(), RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
        for _ in range(STEPS):
            logit, value = members(rows).unbind(-1)
            loss = functional.binary_cross_entropy_with_logits(logit, usable, reduction="none")
            loss = ((loss + (value - targets).square()) * weights).mean(dim=1).sum()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
        return members.eval()

    def predict(self, codes: NDArray[np.int64], rows: Floats) -> Estimate:
        """Mean over the members; the spread is their standard deviation."""
        assert self.members is not None
        with torch.no_grad():
            logit, value = self.members(torch.from_numpy(rows)).unbind(-1)
        return ensemble(logit.sigmoid().numpy(), value.numpy())
