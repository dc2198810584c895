"""The LSWM experiment in a table: mean and spread over seeds, beside the one run of its source."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import torch

from .. import _C
from .lswm import BATCH, EPOCHS, LEARNING_RATE, MODELS, WEIGHT_DECAY, Outcome

Report: TypeAlias = dict[str, Any]
"""As JSON has it: protocol, machine, summary (model -> measure -> mean, sd, ...), outcomes."""

SOURCE = {
    "LSTM-91": {"loss": 0.8333, "accuracy": 0.719, "seconds": 4.0},
    "GRU-105": {"loss": 0.2362, "accuracy": 0.969, "seconds": 4.0},
    "LSWM-128": {"loss": 0.1666, "accuracy": 1.0, "seconds": 8.0},
}
"""What the source measured, once; its models passed the first two tests, LSWM was compiled."""

SOURCE_TESTS = {"first_test": 1.0, "second_test": 1.0}

_COLUMNS = {
    "loss": ("loss", "{:.3f}"),
    "accuracy": ("accuracy", "{:.1%}"),
    "first_test": ("test 1", "{:.0%}"),
    "second_test": ("test 2", "{:.0%}"),
    "third_test": ("test 3", "{:.0%}"),
    "fresh": ("fresh", "{:.1%}"),
    "extrapolated": ("extrapolated", "{:.1%}"),
    "seconds": ("seconds", "{:.2f}"),
}
"""A measure's heading and form; of a test, the share of seeds that pass it."""


def report(outcomes: Sequence[Outcome]) -> Report:
    """All outcomes with their summary, and what they were measured by and on."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cpu": _cpu(),
            "instruction_set": _C.isa(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        },
        "protocol": {
            "epochs": EPOCHS,
            "batch": BATCH,
            "learning_rate": LEARNING_RATE,
            "weight_decay": WEIGHT_DECAY,
        },
        "seeds": len({outcome.seed for outcome in outcomes}),
        "source": SOURCE,
        "summary": {name: _summary(outcomes, name) for name in MODELS},
        "lower_loss": {
            f"LSWM-128 than {rival}": _wins(outcomes, "LSWM-128", rival)
            for rival in MODELS
            if rival != "LSWM-128"
        },
        "time_ratio": _ratio(outcomes, "LSWM-128", "torch LSTM-91"),
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def _summary(outcomes: Sequence[Outcome], model: str) -> dict[str, Any]:
    own = [outcome for outcome in outcomes if outcome.model == model]
    spreads = {name: _spread([float(getattr(each, name)) for each in own]) for name in _COLUMNS}
    return {"parameters": own[0].parameters, **spreads}


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation of the sample, and the extremes."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "least": min(values),
        "most": max(values),
    }


def _by_seed(outcomes: Iterable[Outcome], model: str) -> list[Outcome]:
    own = (outcome for outcome in outcomes if outcome.model == model)
    return sorted(own, key=lambda outcome: outcome.seed)


def _wins(outcomes: Sequence[Outcome], model: str, rival: str) -> int:
    """On how many seeds the model's loss is below the rival's."""
    pairs = zip(_by_seed(outcomes, model), _by_seed(outcomes, rival), strict=True)
    return sum(own.loss < other.loss for own, other in pairs)


def _ratio(outcomes: Sequence[Outcome], model: str, rival: str) -> float:
    """The median over seeds of how many times as long as the rival the model trains."""
    pairs = zip(_by_seed(outcomes, model), _by_seed(outcomes, rival), strict=True)
    return statistics.median(own.seconds / other.seconds for own, other in pairs)


def _cpu() -> str:
    """The processor's name, as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(report: Report) -> str:
    """The report in Markdown: two rows a model, ours over all seeds and the source's."""
    headings = [heading for heading, _ in _COLUMNS.values()]
    lines = [
        _row(["model", "parameters", *headings]),
        _row(["---"] * (2 + len(headings))),
    ]
    for name, summary in report["summary"].items():
        ours = [_ours(measure, summary[measure]) for measure in _COLUMNS]
        lines.append(_row([name, f"{summary['parameters']:,}", *ours]))
        if name in SOURCE:
            lines.append(_row(["its source", "", *(_theirs(name, each) for each in _COLUMNS)]))
    return "\n".join([_heading(report), "", *lines, "", *_comparison(report)])


def _heading(report: Report) -> str:
    machine = report["machine"]
    facts = f"{machine['cpu']}, {machine['instruction_set']}, torch {machine['torch']}"
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] != 1)}"
    return f"{report['date']}, {facts}, {threads}; {report['seeds']} seeds, mean ± sd."


def _comparison(report: Report) -> list[str]:
    ratio = report["time_ratio"]
    lines = [f"LSWM-128 trains {ratio:.2f} times as long as torch LSTM-91 (median over seeds)."]
    for pair, wins in report["lower_loss"].items():
        lines.append(f"Lower loss, {pair}: on {wins} of {report['seeds']} seeds.")
    return lines


def _ours(measure: str, spread: dict[str, float]) -> str:
    _, form = _COLUMNS[measure]
    mean, sd = form.format(spread["mean"]), form.format(spread["sd"])
    return mean if measure.endswith("_test") else f"{mean} ± {sd}"


def _theirs(model: str, measure: str) -> str:
    known = SOURCE[model] | SOURCE_TESTS
    return _COLUMNS[measure][1].format(known[measure]) if measure in known else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
