"""The compiled part of fastcell: arrays in and out, contiguous and of exactly these types."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Codes = NDArray[np.int64]

# bindings.cpp

class Space:
    """A search space: what each of gate0, gate1, gate2, add, h' and c' may read, as masks."""

    def __init__(self, reads: Sequence[int]) -> None: ...
    def valid(self, codes: _Codes) -> NDArray[np.bool_]: ...
    def broken_rule(self, code: int) -> str: ...
    def order(self, codes: _Codes) -> NDArray[np.int64]: ...
    def features(self, codes: NDArray[np.int64]) -> NDArray[np.float32]: ...
    def strata(self) -> list[int]: ...
    def listed(self, order: int) -> _Codes: ...
    def sample(self, n: int, seed: int, orders: int, threads: int) -> _Codes: ...

def feature_names() -> list[str]: ...
def canonicalize(codes: _Codes) -> _Codes: ...
def is_canonical(codes: _Codes) -> NDArray[np.bool_]: ...
def functional_key(codes: _Codes) -> NDArray[np.int64]: ...

# bind_canon.cpp

def canonical_form(
    colours: Sequence[int], edges: Sequence[tuple[int, int, int]], budget: int
) -> bytes | None: ...

# bind_forest.cpp

class Forest:
    """Binary trees: node i sends a row left where row[columns[i]] <= thresholds[i]."""

    def __init__(
        self,
        thresholds: NDArray[np.float32],
        columns: NDArray[np.int32],
        children: NDArray[np.int32],
        values: NDArray[np.float32],
        roots: NDArray[np.int32],
        outputs: NDArray[np.int32],
        width: int,
    ) -> None: ...
    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float32]: ...

# bind_scan.cpp

OPCODES: dict[str, int]
KINDS: dict[str, int]
SECTIONS: dict[str, int]
GEMM_MODES: dict[str, int]
DERIVATIVE_READS: dict[str, str]
LANES: int

class ScanProgram:
    """A compiled Program; csrc/program.h is its encoding."""

    def __init__(
        self,
        dtype: str,
        tensors: int,
        buffers: NDArray[np.int32],
        code: NDArray[np.int32],
        reverse: bool,
    ) -> None: ...
    def run(
        self,
        tensors: NDArray[np.int64],
        T: int,
        B: int,
        threads: int,
        mirrored: bool = False,
        rows: NDArray[np.int64] | None = None,
    ) -> None: ...
    def profile(
        self, tensors: NDArray[np.int64], T: int, B: int, threads: int
    ) -> dict[str, float]: ...
    def workspace_bytes(self, T: int, B: int, threads: int) -> int: ...
    @property
    def isa(self) -> str: ...

def isa() -> str: ...
def isas() -> list[str]: ...
def fma_peak(threads: int, seconds: float = 0.1, dtype: str = "float32") -> float: ...
