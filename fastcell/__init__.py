"""fastcell: write a recurrent cell as math, get a kernel that runs the whole sequence.

The names below are all there is; each loads its module when first used, so that `import fastcell`
is quick and touches no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import library, models, nn, space
    from .acceleration import Acceleration, accelerate
    from .errors import (
        BackendError,
        CodeError,
        FastcellError,
        LanguageError,
        ShapeError,
        StoreError,
        TaskError,
    )
    from .ir import Cell
    from .language import cell, parse
    from .nn import Recurrent
    from .results import Protocol, Result
    from .training import train

__version__ = "0.1.0"

_HOME = {
    "Cell": "ir",
    "cell": "language",
    "parse": "language",
    "Recurrent": "nn",
    "accelerate": "acceleration",
    "Acceleration": "acceleration",
    "train": "training",
    "Protocol": "results",
    "Result": "results",
    "FastcellError": "errors",
    "LanguageError": "errors",
    "ShapeError": "errors",
    "BackendError": "errors",
    "CodeError": "errors",
    "StoreError": "errors",
    "TaskError": "errors",
}
_MODULES = ("library", "models", "nn", "space")

__all__ = [
    "Acceleration",
    "BackendError",
    "Cell",
    "CodeError",
    "FastcellError",
    "LanguageError",
    "Protocol",
    "Recurrent",
    "Result",
    "ShapeError",
    "StoreError",
    "TaskError",
    "accelerate",
    "cell",
    "library",
    "models",
    "nn",
    "parse",
    "space",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
