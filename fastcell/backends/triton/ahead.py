"""Kernels compiled ahead of time, for a device that need not be there, and what they take of it.

Registers and spills of NVIDIA's come from the cubin, by the cuobjdump in Triton's package; those of
AMD's from the assembly.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ...errors import BackendError
from .cost import Device
from .launch import Kernel
from .module import Storage
from .plan import Argument

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Compiled:
    """A kernel's code and what it takes: registers a thread, bytes spilled and shared.

    `seconds` are the processor's, the assembler's included.
    """

    name: str
    assembly: str
    registers: int
    spilled: int
    shared: int
    seconds: float


def compile_kernel(kernel: Kernel, storage: Storage, device: Device) -> list[Compiled]:
    """Each kernel of a module, compiled for the device.

    Raises BackendError when Triton runs as an interpreter, or its compiler refuses.
    """
    target = _target(device.name)
    if triton.knobs.runtime.interpret:
        mend = "unset TRITON_INTERPRET"
        raise BackendError(f"expected Triton's compiler, found its interpreter: {mend}")
    return [_compile(kernel, name, storage, target) for name in kernel.names()]


def _compile(kernel: Kernel, name: str, storage: Storage, target: GPUTarget) -> Compiled:
    function: Any = getattr(kernel.module, name)
    pointers = [_pointer(argument, storage) for argument in kernel.arguments]
    numbers = function.arg_names[len(pointers) :]
    types = [*pointers, *("i32" for _ in numbers)]
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(pointers))}
    source = ASTSource(function, dict(zip(function.arg_names, types, strict=True)), attrs=aligned)
    options = {"num_warps": kernel.tile.warps}
    if target.backend == "cuda":
        options["maxnreg"] = kernel.tile.registers
    start = sum(os.times()[:4])
    try:
        built = triton.compile(source, target=target, options=options)
    except Exception as error:  # the compiler's passes raise what they like
        raise BackendError(f"{name}: expected code for {target}; found {error}") from error
    seconds = sum(os.times()[:4]) - start
    registers, spilled = (_of_cubin if "cubin" in built.asm else _of_amdgcn)(built.asm)
    text = built.asm["ptx" if "ptx" in built.asm else "amdgcn"]
    return Compiled(name, text, registers, spilled, built.metadata.shared, seconds)


def _target(name: str) -> GPUTarget:
    kind, _, architecture = name.partition(":")
    if kind == "hip":
        return GPUTarget(kind, architecture, 64)
    return GPUTarget(kind, int(architecture), 32)


def _pointer(argument: Argument, storage: Storage) -> str:
    return "*fp32" if argument.role == "scratch" else f"*{SHORT[storage.dtype]}"


def _of_cubin(assembly: dict[str, Any]) -> tuple[int, int]:
    """Registers, and bytes of stack: nothing else than spills lies there."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(assembly["cubin"])
        file.flush()
        command = [str(_CUOBJDUMP), "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _number(r"REG:(\d+)", text), _number(r"STACK:(\d+)", text)


def _of_amdgcn(assembly: dict[str, Any]) -> tuple[int, int]:
    text = str(assembly["amdgcn"])
    registers = _number(r"\.vgpr_count: *(\d+)", text)
    return registers, 4 * _number(r"\.vgpr_spill_count: *(\d+)", text)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1])
