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
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from . import features, space
from .errors import StoreError
from .files import write_whole
from .meta.boosting import BoostingModel
from .meta.forest import Forest
from .meta.model import Estimate

SHIPPED = Path(__file__).parent / "data" / "predictor.safetensors"


class Predictor:
    """Estimates of cells by code. Raises StoreError for a file that is none, or does not fit."""

    def __init__(self, path: Path = SHIPPED) -> None:
        try:
            self.key = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
            with safe_open(path, "numpy") as stored:
                self.metadata: dict[str, Any] = json.loads(stored.metadata()["fastcell"])
                arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            self._check_version(path)
            self.forest = Forest.from_arrays(arrays)
        except (OSError, SafetensorError, TypeError, KeyError, ValueError) as error:
            mend = "expected a meta-model that `fastcell fit` wrote"
            raise StoreError(f"{path}: {mend}: {error}") from None
        self.model = BoostingModel(self.forest)

    def _check_version(self, path: Path) -> None:
        ours = {"features": features.VERSION, "space": space.SPACE_VERSION}
        for what, version in ours.items():
            if self.metadata.get(what) != version:
                raise StoreError(
                    f"{path}: expected version {version} of the {what}, found"
                    f" {self.metadata.get(what)}: fit it again with `fastcell fit`"
                )

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

    def explain(self, code: int) -> list[tuple[str, float, float]]:
        """(column, value, effect) of a cell, the largest effects first.

        Effects are what columns add to the target along the ways that the cell takes through the
        trees; they lead from the mean over the labels to the cell's target.
        """
        row = features.features(np.array([code]))[0]
        added = self.forest.contributions(row)
        effects = added[len(added) // 2 :].mean(axis=0)  # the later outputs are the targets
        order = np.argsort(-abs(effects), kind="stable")
        return [(features.names()[i], float(row[i]), float(effects[i])) for i in order]


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
    return {"labels": digest, "features": features.VERSION, "space": space.SPACE_VERSION}


def write_predictor(path: Path, model: BoostingModel, metadata: Mapping[str, Any]) -> None:
    """The fitted model as a file, whole or not at all. Raises StoreError when that fails."""
    assert model.forest is not None
    text = json.dumps(metadata, sort_keys=True)
    write_whole(path, save(model.forest.arrays(), metadata={"fastcell": text}))
