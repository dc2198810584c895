"""The shipped meta-model: how likely a cell is to learn, and how well, from its code alone.

    usable     probability that its best validation NMSE falls below 0.5
    target     log10 of that NMSE, at most 0
    spread     one standard deviation of the target, as the members of the ensemble differ

The file is safetensors; its metadata say which features, labels and scores belong to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from . import features, space
from .errors import StoreError
from .files import write_whole
from .meta.model import Estimate
from .meta.network import Members, NetworkModel

SHIPPED = Path(__file__).parent / "data" / "predictor.safetensors"

BLOCK = 1 << 14
"""Cells at a time: their features and activations stay in the cache."""


class Predictor:
    """Estimates of cells by code. Raises StoreError for a file that is none, or does not fit."""

    def __init__(self, path: Path = SHIPPED) -> None:
        try:
            with safe_open(path, "pt") as stored:
                self.metadata: dict[str, Any] = json.loads(stored.metadata()["fastcell"])
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, TypeError, KeyError, ValueError) as error:
            mend = "expected a meta-model that `fastcell fit` wrote"
            raise StoreError(f"{path}: {mend}: {error}") from None
        if self.metadata.get("features") != features.VERSION:
            raise StoreError(
                f"{path}: expected features of version {features.VERSION}, found"
                f" {self.metadata.get('features')}: fit it again with `fastcell fit`"
            )
        self.model = NetworkModel(Members.of(tensors))

    def __call__(self, codes: ArrayLike) -> Estimate:
        """Of codes (N,), in order. Raises CodeError for a code that is no cell."""
        flat = space.checked(codes)
        blocks = np.split(flat, range(BLOCK, len(flat), BLOCK))
        parts = [self.model.predict(block, features.features(block)) for block in blocks]
        return Estimate(
            usable=np.concatenate([part.usable for part in parts]),
            target=np.concatenate([part.target for part in parts]),
            spread=np.concatenate([part.spread for part in parts]),
        )

    def explain(self, code: int) -> list[tuple[str, float, float]]:
        """(column, value, effect) of a cell, the largest effects first.

        The effect is how much the target would change if the column went from what it is in the
        mean over the labels to what it is here, all others as they are.
        """
        row = features.features(np.array([code]))
        assert self.model.members is not None
        without = np.repeat(row, row.shape[1], axis=0)
        np.fill_diagonal(without, self.model.members.mean.numpy())
        codes = np.full(len(without), code)
        here = self.model.predict(codes[:1], row).target[0]
        effects = here - self.model.predict(codes, without).target
        order = np.argsort(-abs(effects), kind="stable")
        return [(features.names()[i], float(row[0, i]), float(effects[i])) for i in order]


@cache
def shipped() -> Predictor:
    """The meta-model that comes with fastcell."""
    return Predictor()


def write_predictor(path: Path, model: NetworkModel, metadata: Mapping[str, Any]) -> None:
    """The fitted model as a file, whole or not at all. Raises StoreError when that fails."""
    assert model.members is not None
    text = json.dumps({**metadata, "features": features.VERSION}, sort_keys=True)
    tensors = {name: tensor.contiguous() for name, tensor in model.members.state_dict().items()}
    write_whole(path, save(tensors, metadata={"fastcell": text}))
