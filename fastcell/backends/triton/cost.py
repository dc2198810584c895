"""Which strategy and tile a plan gets on a device, by arithmetic alone, and why.

    shared      what a program needs at the same time, against what the device has for one
    seconds     of a step, by the weights that must come from the L2 cache, and by launches

The estimates of shared memory are held against the compiler by the tests, those of time are not
measured: they only put the strategies in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import BackendError
from .module import Storage, Tile, padded
from .plan import Plan
from .stages import cut

_KB = 1024
_BATCH = 64
"""Rows that a batch is taken to have: the choice may not depend on the one at hand."""
_LAUNCH = 20e-6
"""Seconds that Python takes for a launch of Triton's."""
_BARRIER = 1e-6
"""Seconds from the end of a stage to the next one's first results."""
_WIDEST = 256
"""Bytes of a row of weights that are held: with longer ones the compiler runs out of registers."""


_MOST_STAGES = 5
"""Of a step, in one kernel; layernorm_lstm's seven spill, however they are cut."""


@dataclass(frozen=True)
class Device:
    """What the choice depends on."""

    name: str
    shared: int
    """Bytes of shared memory that one program can have."""
    held: int
    """Bytes that it can hold from step to step: the same, or registers, where AMD keeps weights."""
    processors: int
    l2: float
    """Bytes a second from the L2 cache, of all processors together."""
    warps: int
    """Of a program: of 32 threads, or of 64."""


DEVICES = {
    device.name: device
    for device in (
        Device("cuda:80", 163 * _KB, 163 * _KB, 108, 4.0e12, 8),
        Device("cuda:86", 99 * _KB, 99 * _KB, 84, 2.0e12, 8),
        Device("cuda:89", 99 * _KB, 99 * _KB, 128, 4.0e12, 8),
        Device("cuda:90", 227 * _KB, 227 * _KB, 132, 5.5e12, 8),
        Device("cuda:100", 227 * _KB, 227 * _KB, 148, 8.0e12, 8),
        Device("cuda:120", 99 * _KB, 99 * _KB, 170, 6.0e12, 8),
        Device("hip:gfx942", 64 * _KB, 140 * _KB, 304, 6.0e12, 4),
    )
}


@dataclass(frozen=True)
class Choice:
    """A strategy by name, its tile, and the reason in one line."""

    strategy: str
    tile: Tile
    why: str


def choose(plan: Plan, storage: Storage, device: Device) -> Choice:
    """The choice for a plan."""
    width = padded(plan.program.hidden_size)
    need, tile = resident_bytes(plan, storage), Tile(warps=device.warps)
    held = f"weights of {width} x {width} need {need // _KB} KB"
    if _fits(plan, storage, device):
        return Choice("resident", tile, f"{held} of {device.held // _KB} KB and are loaded once")
    limit = f"a program has {device.held // _KB} KB, and holds rows of {_WIDEST} bytes"
    stages = cut(plan).count
    if stages > _MOST_STAGES:
        why = f"{stages} stages in one kernel spill registers"
        return Choice("stepwise", tile, f"{held}, {limit}; {why}")
    times = {
        "streamed": streamed_seconds(plan, storage, device),
        "stepwise": stepwise_seconds(plan, storage, device),
    }
    best = min(times, key=times.__getitem__)
    each = ", ".join(f"{name} {seconds * 1e6:.0f} us a step" for name, seconds in times.items())
    return Choice(best, tile, f"{held}, {limit}; estimated {each} at a batch of {_BATCH}")


def _fits(plan: Plan, storage: Storage, device: Device) -> bool:
    narrow = padded(plan.program.hidden_size) * storage.bytes <= _WIDEST
    return narrow and resident_bytes(plan, storage) <= device.held


def resident_bytes(plan: Plan, storage: Storage) -> int:
    """Shared memory of the resident kernel: weights, factors, and the next step's values, twice."""
    width = padded(plan.program.hidden_size)
    factors = {factor for i in plan.computed for _, factor in plan.inner(i)}
    values = len(_prefetched(plan)) * 2 if plan.program.reverse else 0
    copies = 2 if storage.precision == "tf32x3" and storage.dtype == "float32" else 1
    matrices = len(plan.blocks) * width * width * copies
    tiles = (values + len(factors) * copies) * Tile().rows * width
    return (matrices + tiles) * storage.bytes


def _prefetched(plan: Plan) -> set[int]:
    """What is read from sequences and reaches a product: the compiler loads it a step ahead."""
    reach, stack = set[int](), [f for i in plan.computed for _, f in plan.inner(i)]
    while stack:
        index = stack.pop()
        if index not in reach:
            reach.add(index)
            stack += plan.operands(index)
    return {index for index in reach if plan.nodes[index].op == "read"}


def streamed_seconds(plan: Plan, storage: Storage, device: Device) -> float:
    """Of a step: every program reads all weights, at its processor's share of the L2 cache."""
    programs = -(-_BATCH // Tile().rows)
    rate = device.l2 / max(programs, device.processors)
    return _weight_bytes(plan, storage) / rate + _BARRIER * cut(plan).count


def stepwise_seconds(plan: Plan, storage: Storage, device: Device) -> float:
    """Of a step: a launch for each stage; weights are read once for each tile of rows, by all."""
    programs = -(-_BATCH // Tile().rows)
    return programs * _weight_bytes(plan, storage) / device.l2 + _LAUNCH * cut(plan).count


def _weight_bytes(plan: Plan, storage: Storage) -> int:
    return len(plan.blocks) * plan.program.hidden_size**2 * storage.bytes


def find_device(name: str) -> Device:
    """The device called cuda:90 and the like; a newer one of NVIDIA's counts as the newest here.

    Raises BackendError when there is none like it.
    """
    if name in DEVICES:
        return DEVICES[name]
    kind, _, arch = name.partition(":")
    older = [d for d in DEVICES if kind == "cuda" == d.partition(":")[0] and arch.isdecimal()]
    older = [d for d in older if int(d.partition(":")[2]) <= int(arch)]
    if not older:
        known = f"expected one of {', '.join(DEVICES)}, or newer"
        raise BackendError(f"device: {known}; found {name}: backend='eager' runs there")
    return DEVICES[max(older, key=lambda d: int(d.partition(":")[2]))]
