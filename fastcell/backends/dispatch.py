"""Which engine computes a tensor's cells."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor

from ..errors import BackendError
from . import cpu


def engine_of(x: Tensor) -> Any:
    """The engine for the device of x: `cpu`, or `triton.engine`."""
    if not x.is_cuda:
        return cpu
    if find_spec("triton") is None:
        mend = 'pip install "fastcell[gpu]", or take backend="eager"'
        raise BackendError(f"on {x.device}: expected triton, found no such module: {mend}")
    return import_module(".triton.engine", __package__)
