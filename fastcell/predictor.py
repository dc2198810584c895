"""The shipped meta-model: how likely a cell is to learn, and how well, from its code alone.

    usable     probability that its best validation NMSE falls below 0.5
    target     log10 of that NMSE, at most 0
    spread     one standard deviation of the target, as the members of the ensemble differ

The file is safetensors; its metadata say which features, labels and scores belong to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from . import features, space
from .errors import StoreError
from .files import write_whole
from .meta.model import Estimate
from .meta.network import Members, NetworkModel

SHIPPED = Path(__file__).parent / "data" / "predictor.safetensors"


class Predictor:
    """Estimates of cells by code. Raises StoreError for a file that is none, or does not fit."""

    def __init__(self, path: Path = SHIPPED) -> None:
        try:
            self.key = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
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
        blocks = features.blocks(space.checked(codes))
        parts = [self.estimate(block, features.features(block)) for block in blocks]
        return Estimate(
            usable=np.concatenate([part.usable for part in parts]),
            target=np.concatenate([part.target for part in parts]),
            spread=np.concatenate([part.spread for part in parts]),
        )

    def estimate(self, codes: NDArray[np.int64], rows: NDArray[np.float32]) -> Estimate:
        """Of cells by code and features."""
        return self.model.predict(codes, rows)

    @staticmethod
    def one_thread() -> None:
        """Makes the calling thread compute alone, where several ask at once."""
        torch.set_num_threads(1)

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


def provenance(labels: Path) -> dict[str, Any]:
    """What a fit to a file of labels rests on. Raises StoreError when it can't be read."""
    try:
        digest = hashlib.sha256(labels.read_bytes()).hexdigest()
    except OSError as error:
        raise StoreError(f"{labels}: expected a file of labels: {error}") from None
    return {"labels": digest, "space": space.SPACE_VERSION}


def write_predictor(path: Path, model: NetworkModel, metadata: Mapping[str, Any]) -> None:
    """The fitted model as a file, whole or not at all. Raises StoreError when that fails."""
    assert model.members is not None
    text = json.dumps({**metadata, "features": features.VERSION}, sort_keys=True)
    tensors = {name: tensor.contiguous() for name, tensor in model.members.state_dict().items()}
    write_whole(path, save(tensors, metadata={"fastcell": text}))
