"""Training functions that stand in for the real one: workers find them by name, and some die."""

import os
import signal
import time
from pathlib import Path

import fastcell
from fastcell.library import rnn
from fastcell.results import Protocol, Result, Run
from fastcell.sweep import sweep

CELLS = [rnn, fastcell.parse("def late(x, h):\n    return tanh(linear(x) + h)")]
PROTOCOL = Protocol(epochs=3)


def runs(seeds):
    return [Run(cell, "adding", PROTOCOL, seed) for cell in CELLS for seed in range(seeds)]


def quick(cell, task, protocol, seed, on_epoch):
    """A curve that depends on the run alone."""
    curve = tuple((1 + seed) / (epoch + len(cell.nodes)) for epoch in range(protocol.epochs))
    for epoch, value in enumerate(curve, start=1):
        on_epoch(epoch, value)
    run = Run(cell, task, protocol, seed)
    return Result.of(run, "done", epochs=protocol.epochs, validation=curve, test=curve[-1])


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory():
    bytearray(2**60)


def gone_wrong():
    raise RuntimeError("what happened\nand where")


def troubled(folder, times, trouble, cell, task, protocol, seed, on_epoch):
    """As quick, but in trouble at the first `times` attempts at seed 1; counts all attempts."""
    on_epoch(1, 0.5)
    attempts = folder / f"{cell.name}-{seed}"
    with attempts.open("a") as file:
        file.write(".")
    if seed == 1 and attempts.stat().st_size <= times:
        trouble()
    return quick(cell, task, protocol, seed, on_epoch)


def diverges(folder, cell, task, protocol, seed, on_epoch):
    """No number comes out for seed 1."""
    result = troubled(folder, 0, killed, cell, task, protocol, seed, on_epoch)
    if seed != 1:
        return result
    run = Run(cell, task, protocol, seed)
    return Result.of(run, "diverged", error="training loss was nan in epoch 1", epochs=1)


def attempts(folder):
    """How often the runs of each seed were begun."""
    counts = {}
    for file in folder.iterdir():
        counts.setdefault(int(file.name.rpartition("-")[2]), set()).add(file.stat().st_size)
    return counts


def sleeps(cell, task, protocol, seed, on_epoch):
    on_epoch(1, float(os.getpid()))
    while True:
        time.sleep(0.2)
        on_epoch(2, 0.5)


def swept(seeds, train, jobs, executor="local"):
    """The results in order of their ids, one a run."""
    wanted = runs(seeds)
    results = list(sweep(wanted, train, jobs, lambda run, epoch, nmse: None, executor))
    assert sorted(r.id for r in results) == sorted(run.id for run in wanted)
    return sorted(results, key=lambda result: result.id)


def ended(processes):
    """Whether they all end within half a minute."""
    deadline = time.monotonic() + 30
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, processes))


def is_running(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
