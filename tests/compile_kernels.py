"""Compiles kernels in a process of its own, where Triton is no interpreter.

    python compile_kernels.py TARGET HIDDEN DTYPE PRECISION CELL...

A cell is a name of the library or a code; a line of JSON for each of its passes.
"""

import json
import sys

from fastcell import space
from fastcell.backends.triton.ahead import compile_kernel
from fastcell.backends.triton.cost import choose, find_device
from fastcell.backends.triton.launch import build
from fastcell.backends.triton.module import Storage
from fastcell.backends.triton.plan import divide
from fastcell.library import CELLS
from fastcell.lower import lower_backward, lower_forward


def facts(program, storage, device):
    plan = divide(program)
    choice = choose(plan, storage, device)
    kernel = build(plan, storage, choice)
    kernels = compile_kernel(kernel, storage, device)
    return {
        "name": kernel.name,
        "strategy": choice.strategy,
        "limit": device.shared,
        "kernels": len(kernels),
        "registers": max(each.registers for each in kernels),
        "spilled": max(each.spilled for each in kernels),
        "shared": max(each.shared for each in kernels),
        "seconds": max(each.seconds for each in kernels),
    }


def main(target, hidden, dtype, precision, *names):
    storage, device, size = Storage(dtype, precision), find_device(target), int(hidden)
    for name in names:
        cell = CELLS[name] if name in CELLS else space.decode(int(name))
        for lower in (lower_forward, lower_backward):
            result = facts(lower(cell, size, size), storage, device)
            print(json.dumps({"cell": name, **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
