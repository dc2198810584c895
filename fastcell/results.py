"""A training run: how it is trained, what it is, what came out. Plain values, written as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from . import __version__, space
from .errors import CodeError, TaskError
from .ir import Cell

PROTOCOL_VERSION = 2
"""What else a protocol's key stands for: raise it when training changes what a run gives."""

THREADS = 1
"""A run computes with one, so that its result does not depend on how many run at a time."""

Status: TypeAlias = Literal["done", "plateau", "diverged", "failed"]

_CHOICES = {"optimizer": ("adam", "adamw", "sgd"), "dtype": ("float32", "float64")}
_LEAST = {
    "epochs": 1,
    "batch_size": 1,
    "hidden_size": 1,
    "learning_rate": 0.0,
    "clip": 0.0,
    "patience": 0,
}


def _checked(name: str, value: Any, least: float) -> float:
    """The number, a float where the bound is one. A whole one as float has the same key."""
    kinds = (int,) if isinstance(least, int) else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value < math.inf:
        kind = "a whole number" if isinstance(least, int) else "a number"
        raise TaskError(f"{name}: expected {kind} >= {least:g}, found {value!r}")
    return type(least)(value)


@dataclass(frozen=True)
class Protocol:
    """How a cell is trained, the same for all that are compared.

    Raises TaskError for a value out of range.
    """

    epochs: int = 400
    batch_size: int = 64
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    clip: float = 1.0
    """Largest norm of the whole gradient; a longer one is scaled down to it. 0 lets it be."""
    hidden_size: int = 64
    dtype: str = "float32"
    patience: int = 0
    """Epochs that a hopeless run may go on for; see `plateaued`. 0 lets every run go to its end."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), least))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(choices)
                raise TaskError(f"{name}: expected one of {known}; found {getattr(self, name)!r}")

    @cached_property
    def key(self) -> str:
        """16 hex digits, equal exactly when the protocols are."""
        return _short_hash({"version": PROTOCOL_VERSION, **asdict(self)})


DEFAULT_PROTOCOL = Protocol()

HOPELESS = 0.5
"""A validation NMSE that a run with hope comes below; always guessing the mean has 1."""

PROGRESS = 0.01
"""The part of its best validation NMSE that a run must lose within the protocol's patience."""


def plateaued(validation: Sequence[float], patience: int) -> bool:
    """Whether the rule for hopeless runs ends a run with this curve, one value an epoch.

    best > HOPELESS  and  best > (1 - PROGRESS) * best of `patience` epochs ago
    """
    if not patience or len(validation) <= patience:
        return False
    best, before = min(validation), min(validation[:-patience])
    return best > HOPELESS and best > (1 - PROGRESS) * before


def _short_hash(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class ResultId(NamedTuple):
    """What makes two runs the same run."""

    cell_key: str
    task: str
    protocol_key: str
    seed: int


@dataclass(frozen=True)
class Run:
    """A training run to do. Raises TaskError for a seed outside 0 .. 2^63 - 1."""

    cell: Cell
    task: str
    protocol: Protocol
    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise TaskError(f"seed: expected a whole number in 0 .. 2^63 - 1, found {self.seed!r}")

    @cached_property
    def id(self) -> ResultId:
        """The id of its result."""
        return ResultId(self.cell.key, self.task, self.protocol.key, self.seed)

    @cached_property
    def code(self) -> int | None:
        """The cell's code, None outside the search space."""
        return code_of(self.cell)


def code_of(cell: Cell) -> int | None:
    """The cell's code, None when it is not in the search space."""
    try:
        return int(space.encode(cell))
    except CodeError:
        return None


def _versions() -> str:
    # Imported here: it takes longer than all of this module, and only training asks.
    from importlib.metadata import version

    return f"fastcell {__version__}, torch {version('torch')}"


@dataclass(frozen=True)
class Result:
    """What a run gave.

    "plateau" ended by the rule for hopeless runs, "diverged" on a value that was not finite,
    "failed" on an error.

    Errors are NMSE on validation and test data; `test` is that of the weights with the best
    validation. A run that diverged at once has none of the three.
    """

    cell_key: str
    cell_text: str
    code: int | None
    name: str
    task: str
    protocol: Protocol
    seed: int
    status: Status
    error: str | None
    """One line on what ended the run, None when it is done."""
    epochs: int
    """Epochs begun; a run that diverged did so in the last of them."""
    parameters: int
    """Of the cell alone, without projection and readout."""
    best_validation: float | None
    best_epoch: int | None
    """Counted from 1."""
    test: float | None
    validation: tuple[float, ...]
    """The curve: one value for each epoch that ended."""
    seconds: float
    versions: str
    threads: int

    @classmethod
    def of(
        cls,
        run: Run,
        status: Status,
        *,
        error: str | None = None,
        epochs: int = 0,
        validation: tuple[float, ...] = (),
        test: float | None = None,
        seconds: float = 0.0,
    ) -> Result:
        """The result of a run; what follows from the run and the curve is filled in."""
        best = min(validation, default=None)
        hidden = run.protocol.hidden_size
        return cls(
            cell_key=run.cell.key,
            cell_text=str(run.cell),
            code=run.code,
            name=run.cell.name,
            task=run.task,
            protocol=run.protocol,
            seed=run.seed,
            status=status,
            error=error,
            epochs=epochs,
            parameters=run.cell.parameter_count(hidden, hidden),
            best_validation=best,
            best_epoch=None if best is None else 1 + validation.index(best),
            test=test,
            validation=validation,
            seconds=seconds,
            versions=_versions(),
            threads=THREADS,
        )

    @cached_property
    def id(self) -> ResultId:
        """(cell key, task, protocol key, seed)."""
        return ResultId(self.cell_key, self.task, self.protocol.key, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON has them."""
        return asdict(self)

    def to_json(self) -> str:
        """One line of JSON; `from_json` gives an equal result back."""
        return json.dumps(self.to_dict(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The result that `to_json` wrote. Raises ValueError when it did not."""
        record = json.loads(text)
        if not isinstance(record, dict) or record.keys() != {field.name for field in fields(cls)}:
            raise ValueError("expected the fields of a Result")
        if record["status"] not in get_args(Status):
            raise ValueError(f"expected a status, found {record['status']!r}")
        record["protocol"] = Protocol(**record["protocol"])
        record["validation"] = tuple(record["validation"])
        return cls(**record)
