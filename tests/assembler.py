"""Programs of the tile machine put together by hand, in the encoding of csrc/program.h."""

import numpy as np

from fastcell import _C

SIZES = [1, 7, 16, 64, 91, 105, 130, 300]
DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}  # of a sum, relative to that of absolute values


class Assembler:
    """A Program in the making; tensors are numpy arrays, operands a buffer or (buffer, column)."""

    def __init__(self, dtype="float32", reverse=False):
        self.dtype, self.reverse = dtype, reverse
        self.tensors, self.buffers, self.code = [], [], []

    def tensor(self, array):
        """The number of a tensor (T, B, width), (B, width) or (rows, columns); None: absent."""
        self.tensors.append(array)
        return len(self.tensors) - 1

    def buffer(self, kind, width, rows=0, tensor_a=-1, tensor_b=-1):
        self.buffers.append((_C.KINDS[kind], rows, width, tensor_a, tensor_b))
        return len(self.buffers) - 1

    def emit(self, section, opcode, width, dst, a=-1, b=-1, c=-1, extra0=0, extra1=0):
        operands = [each if isinstance(each, tuple) else (each, 0) for each in (dst, a, b, c)]
        fields = (*sum(operands, ()), width, extra0, extra1)
        self.code.append((_C.SECTIONS[section], _C.OPCODES[opcode], *fields))

    def assemble(self):
        buffers = np.array(self.buffers, np.int32).reshape(-1, 5)
        code = np.array(self.code, np.int32).reshape(-1, 13)
        return _C.ScanProgram(self.dtype, len(self.tensors), buffers, code, self.reverse)

    def described(self):
        """What `run` wants to know of the tensors."""
        rows = [(0, 0, 0) if t is None else describe(t) for t in self.tensors]
        return np.array(rows, np.int64).reshape(-1, 3)

    def run(self, T=1, B=1, threads=1):
        self.assemble().run(self.described(), T, B, threads)


def describe(tensor):
    strides = [stride // tensor.itemsize for stride in tensor.strides]
    return tensor.ctypes.data, strides[0] if tensor.ndim == 3 else 0, strides[-2]


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, expected, scale, dtype):
    """As a sum should be, whose absolute values add up to `scale`."""
    return np.all(np.abs(found - expected) <= TOLERANCE[dtype] * (scale + 1e-30))


def apply(opcode, *operands, dtype):
    """One elementwise instruction on flat arrays."""
    size = operands[0].size
    out = np.full((size, 1), 7, dtype)
    asm = Assembler(dtype)
    tile = [asm.buffer("TILE", 1) for _ in range(3)]
    for buffer, operand in zip(tile, operands, strict=False):
        column = asm.tensor(np.ascontiguousarray(operand, dtype).reshape(-1, 1))
        asm.emit("LOOP", "load", 1, buffer, column)
    asm.emit("LOOP", opcode, 1, tile[0], *tile)
    asm.emit("LOOP", "store", 1, asm.tensor(out), tile[0])
    asm.run(B=size)
    return out[:, 0]
