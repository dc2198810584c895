"""Labels: cells really trained, which the meta-model learns from; and the file they ship in.

The cells are a stratified sample of the space: number i is uniform among the cells of order i % 24.
The first FULL of them are trained to the last epoch, so that the error of the rule that ends
hopeless runs early can be read off; the others under that rule. REPLICATED of them are trained
with SEEDS seeds, which tells how far a label is noise. More labels begin with the fewer.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from . import space
from .errors import StoreError
from .files import write_whole
from .results import (
    DEFAULT_PROTOCOL,
    HOPELESS,
    PROGRESS,
    Protocol,
    Result,
    Run,
    Status,
    plateaued,
)

SEED = 2026
"""Draws the cells."""

FULL, REPLICATED, SEEDS = 30, 50, 3
PATIENCE = 60
RULED_PROTOCOL = replace(DEFAULT_PROTOCOL, patience=PATIENCE)

SHIPPED = Path(__file__).parent / "data" / "labels.jsonl.gz"

_DIGITS = 5


@dataclass(frozen=True)
class Label:
    """One training run of a cell of the space, on the Adding task."""

    code: int
    seed: int
    patience: int
    """The protocol's; all else is the default protocol."""
    status: Status
    epochs: int
    """Epochs begun."""
    best_validation: float | None
    """Lowest validation NMSE, None for a run that diverged in its first epoch."""
    test: float | None
    """NMSE of the weights with the best validation."""
    seconds: float
    validation: tuple[float, ...]
    """The curve, to five digits."""

    @property
    def id(self) -> tuple[int, int, int]:
        """(code, seed, patience), one label each."""
        return self.code, self.seed, self.patience

    @classmethod
    def of(cls, result: Result) -> Label:
        """The label that a training run gives."""
        assert result.code is not None
        curve = tuple(float(f"{nmse:.{_DIGITS}g}") for nmse in result.validation)
        return cls(
            code=result.code,
            seed=result.seed,
            patience=result.protocol.patience,
            status=result.status,
            epochs=result.epochs,
            best_validation=result.best_validation,
            test=result.test,
            seconds=result.seconds,
            validation=curve,
        )


def label_runs(cells: int) -> list[Run]:
    """The runs that label so many cells, the most useful first.

    After every fourth cell comes one of the first REPLICATED with its other seeds.
    """
    drawn = [space.decode(code) for code in space.sample(cells, SEED).tolist()]
    runs = list[Run]()
    for i, cell in enumerate(drawn):
        runs.append(Run(cell, "adding", _protocol(i), 0))
        again, rest = divmod(i, 4)
        if rest == 3 and again < REPLICATED:
            runs += [Run(drawn[again], "adding", RULED_PROTOCOL, s) for s in range(1, SEEDS)]
    return runs


def run_id(run: Run) -> tuple[int, int, int]:
    """The id of the label that the run, of a cell of the space, will give."""
    assert run.code is not None
    return run.code, run.seed, run.protocol.patience


def _protocol(index: int) -> Protocol:
    return DEFAULT_PROTOCOL if index < FULL else RULED_PROTOCOL


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """The labels as a gzipped file of JSON lines, and its datasheet beside it, whole or not at all.

    Equal labels give equal bytes. Raises StoreError when the files can't be written.
    """
    ordered = sorted(labels, key=lambda label: (label.code, label.seed))
    lines = "".join(json.dumps(asdict(label), allow_nan=False) + "\n" for label in ordered)
    packed = gzip.compress(lines.encode(), mtime=0)
    sheet = datasheet(ordered, hashlib.sha256(packed).hexdigest())
    for target, content in ((path, packed), (datasheet_path(path), sheet.encode())):
        write_whole(target, content)


def read_labels(path: Path = SHIPPED) -> list[Label]:
    """The labels of a file, by default those that come with fastcell.

    Raises StoreError when there is no such file, or it holds something else.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return [_label(json.loads(line)) for line in lines]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise StoreError(f"{path}: expected a file that `fastcell label` wrote: {error}") from None


def _label(record: dict[str, Any]) -> Label:
    label = Label(**record)
    return replace(label, validation=tuple(label.validation))


def datasheet_path(path: Path) -> Path:
    """labels.jsonl.gz -> labels.md"""
    return path.with_name(path.name.split(".", 1)[0] + ".md")


@dataclass(frozen=True)
class RuleError:
    """What the rule for hopeless runs would have done to runs that were trained to the end."""

    runs: int
    ended: int
    wrong: int
    """Ended, though they came below HOPELESS later."""
    epochs_saved: float
    """Of all epochs of these runs."""


def rule_error(labels: Sequence[Label], patience: int = PATIENCE) -> RuleError:
    """The rule, replayed on every label whose run ignored it."""
    curves = [label.validation for label in labels if label.patience == 0 and label.validation]
    ends = [_end(curve, patience) for curve in curves]
    early = [(end, curve) for end, curve in zip(ends, curves, strict=True) if end < len(curve)]
    return RuleError(
        runs=len(curves),
        ended=len(early),
        wrong=sum(min(curve) <= HOPELESS for _, curve in early),
        epochs_saved=1 - sum(ends) / max(1, sum(map(len, curves))),
    )


def _end(curve: Sequence[float], patience: int) -> int:
    ends = (n for n in range(1, len(curve)) if plateaued(curve[:n], patience))
    return next(ends, len(curve))


def datasheet(labels: Sequence[Label], digest: str) -> str:
    """What the labels are and how they were made, in Markdown."""
    counted = Counter(label.status for label in labels)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(counted.items()))
    hours = math.fsum(label.seconds for label in labels) / 3600
    cells, rule = len({label.code for label in labels}), rule_error(labels)
    return f"""# Labels

{len(labels):,} training runs of {cells:,} cells of the search space on the Adding task: {counts}.
{hours:.1f} hours of one thread each. SHA-256 of the file: `{digest}`.

- **Cells**: `space.sample(n, seed={SEED})`, uniform within each of the 24 orders in turn.
- **Runs**: the default protocol ({DEFAULT_PROTOCOL}), seed 0; up to {REPLICATED} cells with
  seeds 0 to {SEEDS - 1}. Made by `fastcell label`.
- **Hopeless runs**: all but the first {FULL} cells have patience {PATIENCE}: a run ends when its
  best validation NMSE is over {HOPELESS} and fell by less than {PROGRESS:.0%} in {PATIENCE} epochs.
  Replayed on the {rule.runs} runs without it that gave a curve: {rule.ended} end early,
  {rule.wrong} of them wrongly (they came below {HOPELESS} later); {rule.epochs_saved:.0%} of the
  epochs are spared.
- **Columns**, a JSON object a line: `code` of the cell (layout {space.SPACE_VERSION} of the space);
  `seed`; `patience`; `status` (done, plateau, diverged, failed); `epochs` begun; `best_validation`,
  the lowest validation NMSE; `test`, the NMSE of those weights; `seconds`; `validation`, the NMSE
  after each epoch to {_DIGITS} digits.
"""
