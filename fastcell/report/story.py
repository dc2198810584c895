"""The story of a run in sentences, each with its numbers; what is not known is not told."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from statistics import median

from ..results import HOPELESS
from ..wording import show_nmse
from .evidence import GROUPS, Evidence, Trained
from .statistics import chance, kendall, wins

SOURCE = {
    "screening": 381.5,
    "training": 1179.6,
    "passed": 367_446,
    "cell": 0.00003775,
    "lstm": 0.00461830,
}
"""The published search: seconds for 1,000,000 candidates and for its 50 best, and test NMSE."""

_SURE = 0.05
_FEW = 3
"""Fewer seeds than this say nothing for sure."""


def story(evidence: Evidence) -> list[str]:
    """The sentences, in order."""
    return [*_screened(evidence), *_trained(evidence), *_won(evidence), *_predicted(evidence)]


def screen_seconds(evidence: Evidence) -> float:
    """By the clock, from the first draw to the last estimate."""
    seconds = evidence.screening["seconds"]
    return float(seconds["sample"] + seconds.get("screen", seconds.get("predict", 0.0)))


def _screened(evidence: Evidence) -> Iterator[str]:
    if not evidence.plan:
        return
    screening = evidence.screening
    total, passed = screening["candidates"], screening["passed"]
    yield (
        f"Of {total:,} cells drawn from the space, {passed:,} ({passed / max(1, total):.1%}) pass:"
        " the meta-model gives them even odds or better to learn the task."
    )
    yield (
        f"Drawing, encoding and estimating them took {screen_seconds(evidence):,.1f} s on"
        f" {screening['threads']} threads; the source's search took {SOURCE['screening']} s for"
        f" 1,000,000, of which {SOURCE['passed']:,} passed."
    )


def _trained(evidence: Evidence) -> Iterator[str]:
    runs = sum(len(cell.runs) for cell in evidence.cells)
    yield f"{len(evidence.cells):,} cells were really trained, in {runs:,} runs."
    shares = [_share(evidence, name) for name in GROUPS if evidence.group(name)]
    if shares:
        yield f"The task was learned (NMSE below {HOPELESS:g}) by {', '.join(shares)}."


def _share(evidence: Evidence, name: str) -> str:
    cells = evidence.group(name)
    return f"{sum(cell.usable for cell in cells)} of {len(cells)} {GROUPS[name]}"


def _won(evidence: Evidence) -> Iterator[str]:
    best = evidence.best
    if best is None:
        return
    yield f"The best cell, {best.name}, has test NMSE {spread(best)}."
    for rival in evidence.rivals:
        yield f"{verdict(best, rival)}."


def spread(cell: Trained) -> str:
    """The median test NMSE, and from where to where the seeds go."""
    tests = cell.tests
    if len(tests) == 1:
        return f"{show_nmse(tests[0])} with one seed"
    low, high = show_nmse(min(tests)), show_nmse(max(tests))
    return f"{show_nmse(median(tests))} (median of {len(tests)} seeds, {low} to {high})"


def verdict(best: Trained, rival: Trained) -> str:
    """Whether the best cell beats another, as the seeds' spread allows to say.

    The seed by which a search picked its best flatters it, and is left out where there are others.
    """
    ours = best.tests[1:] if best.groups and len(best.tests) > 1 else best.tests
    won, pairs = wins(ours, rival.tests)
    ratio = median(rival.tests) / median(ours)
    factor = f"{ratio:.3g} times lower" if ratio >= 1 else f"{1 / ratio:.3g} times higher"
    facts = f"lower in {won:g} of {pairs} pairs of seeds, {factor} in the median"
    if min(len(ours), len(rival.tests)) < _FEW:
        return f"Against {rival.name}: {facts}; too few seeds to be sure"
    odds = chance(ours, rival.tests)
    word = "Beats" if won > pairs / 2 else "Loses to"
    if odds > _SURE:
        word = "No clear difference from"
    return f"{word} {rival.name}: {facts}, p = {odds:.2g}"


def agreement(evidence: Evidence) -> tuple[float, float] | None:
    """Kendall's tau of predicted and real order within the top, and its standard error."""
    pairs = [
        (cell.estimate.target, min(cell.first.best_validation or 1.0, 1.0))
        for cell in evidence.group("top")
        if cell.estimate
    ]
    if len(pairs) < 3:
        return None
    predicted, real = zip(*pairs, strict=True)
    return kendall(predicted, real)


def _predicted(evidence: Evidence) -> Iterator[str]:
    found = agreement(evidence)
    if found is not None and not isnan(found[0]):
        yield (
            "Within the most promising, the predicted and the real order agree with Kendall's"
            f" tau {found[0]:.2f} ± {found[1]:.2f} (standard error)."
        )
