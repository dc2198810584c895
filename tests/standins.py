"""Stand-ins for training and the meta-model: quick, so that searches can be killed often."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from fastcell.results import Protocol, Result, Run
from fastcell.search import Options

OPTIONS = Options(candidates=500, train=4, control=2, seed=7, protocol=Protocol(epochs=2))


def fake(cell, task, protocol, seed, on_epoch):
    """A result that depends on the cell and the seed; FAKE_LOG takes down whose it is."""
    value = int(cell.key[:6], 16) / 2**24 + seed * 1e-9
    on_epoch(1, value)
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    with Path(os.environ["FAKE_LOG"]).open("a") as log:
        log.write(f"{cell.key}\n")
    run = Run(cell, task, protocol, seed)
    return Result.of(run, "done", epochs=1, validation=(value,), test=value / 2)


class FakePredictor:
    """Estimates from the bits of a code, well spread and the same for no two."""

    key = "fake"
    metadata = {"cells": 0}  # noqa: RUF012

    def estimate(self, codes, rows):
        assert rows.shape[0] == len(codes)
        bits = (codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
        usable = bits.astype(np.float64) / 2**53
        return SimpleNamespace(usable=usable, target=usable * 7 % 1 - 1, spread=usable * 0 + 0.5)


PREDICTOR = FakePredictor()
