"""A search as a store keeps it, made up: cells of the space, curves by formula."""

import numpy as np

from fastcell import space
from fastcell.library import CELLS
from fastcell.results import Protocol, Result, Run
from fastcell.store import Store

PROTOCOL = Protocol(epochs=30)
GROUPS = ("top", "passing", "random")
SCORES = {"auc": 0.9, "kendall": 0.6, "spearman_usable": float("nan")}


def plan(train=12, control=8):
    codes = space.sample(train + 2 * control, seed=4).tolist()
    picked = {"top": codes[:train], "passing": codes[train:-control], "random": codes[-control:]}
    draws = np.random.default_rng(0)
    targets = {code: float(draws.uniform(-4, -0.5)) for code in codes}
    screening = {
        "candidates": 100_000,
        "passed": 36_745,
        "seconds": {"sample": 0.5, "encode": 1.0, "predict": 3.0, "screen": 2.25},
        "threads": 2,
        "known": [],
        "predictor": {
            "scores": {"network": SCORES, "boosting": {**SCORES, "auc": 0.8}},
            "calibration": {"network": [[0.1, 0.12, 50], [0.9, 0.85, 20]]},
        },
    }
    return {
        "options": {"seed": 0, "train": train, "control": control},
        "screening": screening,
        "picked": picked,
        "estimates": {str(code): [0.8, target, 0.3] for code, target in targets.items()},
    }


def made(cell, seed, best, status="done"):
    """A run whose curve falls to its best value."""
    curve = tuple(float(best ** ((i + 1) / PROTOCOL.epochs)) for i in range(PROTOCOL.epochs))
    run = Run(cell, "adding", PROTOCOL, seed)
    if status == "diverged":
        return Result.of(run, status, error="training loss was nan in epoch 1", epochs=1)
    return Result.of(run, "done", epochs=len(curve), validation=curve, test=best * 1.1, seconds=2.5)


def results(searched):
    """Every picked cell, every fifth of them diverged; five seeds of the best and of two known."""
    for name in GROUPS:
        for i, code in enumerate(searched["picked"][name]):
            best = 10 ** (searched["estimates"][str(code)][1] * (1.0 if name == "top" else 0.2))
            yield made(space.decode(code), 0, best, "diverged" if i % 5 == 4 else "done")
    for seed in range(5):
        yield made(CELLS["lstm"], seed, 3e-3 * (1 + seed / 10))
        yield made(CELLS["adding_dag"], seed, 1e-5 * (1 + seed / 10))
    top = searched["picked"]["top"]
    best = min((c for i, c in enumerate(top) if i % 5 != 4), key=lambda c: target(searched, c))
    for seed in range(1, 5):
        yield made(space.decode(best), seed, 10 ** target(searched, best) * (1 + seed / 10))


def target(searched, code):
    return searched["estimates"][str(code)][1]


def fill(path, most=None, planned=True):
    """The store, with so many of the results."""
    searched = plan()
    with Store(path) as store:
        if planned:
            store.set_plan(searched)
        for result in list(results(searched))[:most]:
            store.add(result)
    return searched
