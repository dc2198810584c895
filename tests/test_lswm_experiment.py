"""The LSWM experiment: its models, its protocol redone by hand, its table and its command."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from conftest import TOLERANCE
from torch import nn

import fastcell.experiments.lswm as experiment
from fastcell.cli import main
from fastcell.experiments.lswm import MODELS, TESTS, LastStep, Outcome, run
from fastcell.experiments.lswm_report import report, table
from fastcell.tasks.chains import ARROW, ASK_FIRST, ASK_LAST, branching_multi_hop
from fastcell.training import derived_seed

COUNTS = {
    "LSTM-91": 68_796,
    "GRU-105": 68_880,  # as the source counts it
    "LSWM-128": 68_609,  # as the source counts it
    "modified LSWM-128": 134_144,
    "torch LSTM-91": 68_796,
}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_parameters_are_counted_as_in_the_source(name, count):
    assert sum(parameter.numel() for parameter in MODELS[name]().parameters()) == count


@pytest.mark.parametrize(("name", "module", "gates"), [
    ("LSTM-91", nn.LSTM(91, 91), ["i", "f", "g", "o"]),
    ("GRU-105", nn.GRU(105, 105), ["r", "z", "n"]),
])  # fmt: skip
def test_baselines_are_those_of_torch(name, module, gates):
    """With torch's weights, the same logits."""
    torch.manual_seed(0)
    ours = MODELS[name]()
    theirs = LastStep(module, 18, module.hidden_size)
    parts = dict(ours.layer.layers[0].named_modules())
    for gate, of_x, of_h, b_x, b_h in zip(
        gates, *(tensor.chunk(len(gates)) for tensor in module.all_weights[0]), strict=True
    ):
        first, second = ("n_x", "n_h") if gate == "n" else (gate, f"{gate}_2")
        parts[first].load_state_dict({"weight": of_x, "bias": b_x})
        parts[second].load_state_dict({"weight": of_h, "bias": b_h})
    theirs.embedding, theirs.norm = ours.embedding, ours.norm
    tokens = torch.randint(18, (7, 5))
    torch.testing.assert_close(ours(tokens), theirs(tokens), **TOLERANCE[torch.float32])


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_answers(name):
    """Tokens without an arrow between them are where the second chain begins."""
    chain, answers = TESTS[name]
    (break_,) = [k for k in range(1, len(chain)) if ARROW not in chain[k - 1 : k + 1]]
    assert chain[0] == chain[break_]
    assert (chain[break_ - 1], chain[-1]) == answers


def by_hand(name, seed, epochs):
    """The last batch's loss and accuracy, by the source's protocol."""
    torch.manual_seed(derived_seed(seed, "weights"))
    model = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0004, weight_decay=0.0099999)
    generator = torch.Generator().manual_seed(derived_seed(seed, "batches"))
    for epoch in range(1, epochs + 1):
        question = ASK_FIRST if epoch % 2 == 0 else ASK_LAST
        batch = branching_multi_hop(64, 1, generator, question)
        logits = model(batch.inputs)
        loss = nn.CrossEntropyLoss()(logits, batch.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), (logits.argmax(1) == batch.targets).float().mean().item()


def test_the_protocol_is_the_sources(monkeypatch):
    monkeypatch.setattr(experiment, "TURN", 4)
    *_, outcomes = run(2, epochs=6)
    assert [outcome.model for outcome in outcomes] == list(MODELS)
    for outcome in outcomes:
        loss, accuracy = by_hand(outcome.model, 1, 6)
        assert outcome.loss == pytest.approx(loss, rel=1e-4)
        assert outcome.accuracy == accuracy
        assert outcome.seconds > 0


def test_a_model_that_knows_passes():
    """It reads the chains' ends at their places, whatever the length."""

    class Knows(nn.Module):
        def forward(self, tokens):
            values = torch.where(tokens == ARROW, -1, tokens)
            half = next(
                k for k in range(1, len(tokens)) if (tokens[k - 1 : k + 1, 0] != ARROW).all()
            )
            ends = torch.where(tokens[-1] == ASK_FIRST, values[half - 1], values[-2])
            return nn.functional.one_hot(ends, 18).float()

    fit = experiment._Fit("LSWM-128", 0)
    fit.model = Knows()
    outcome = fit.outcome()
    assert outcome.first_test
    assert outcome.second_test
    assert outcome.third_test
    assert outcome.fresh == outcome.extrapolated == 1


def test_untrained_models_guess():
    (outcomes,) = run(1, epochs=1)
    for outcome in outcomes:
        assert outcome.fresh < 0.3
        assert outcome.extrapolated < 0.3
        assert not (outcome.first_test and outcome.second_test and outcome.third_test)


def made_up():
    """Two seeds whose figures are easily summed up."""
    base = Outcome("", 0, 7, 0.5, 1.0, True, False, True, 0.75, 0.25, 2.0)
    return [
        replace(base, model=name, seed=seed, loss=0.5 + seed + place, seconds=2.0 + place)
        for seed in range(2)
        for place, name in enumerate(MODELS)
    ]


def test_report():
    outcomes = made_up()
    found = report(outcomes)
    losses = [outcome.loss for outcome in outcomes if outcome.model == "GRU-105"]
    expected = {"mean": np.mean(losses), "sd": np.std(losses, ddof=1), "least": 1.5, "most": 2.5}
    assert found["summary"]["GRU-105"]["loss"] == pytest.approx(expected)
    assert found["lower_loss"] == {
        "LSWM-128 than LSTM-91": 0,
        "LSWM-128 than GRU-105": 0,
        "LSWM-128 than modified LSWM-128": 2,
        "LSWM-128 than torch LSTM-91": 2,
    }
    assert found["time_ratio"] == pytest.approx(4 / 6)
    assert found["outcomes"] == [asdict(outcome) for outcome in outcomes]
    assert json.loads(json.dumps(found)) == found


def test_table():
    lines = table(report(made_up())).splitlines()
    gru = lines.index(
        "| GRU-105 | 7 | 2.000 ± 0.707 | 100.0% ± 0.0% | 100% | 0% | 100% | 75.0% ± 0.0% |"
        " 25.0% ± 0.0% | 3.00 ± 0.00 |"
    )
    assert lines[gru + 1] == "| its source |  | 0.236 | 96.9% | 100% | 100% |  |  |  | 4.00 |"
    assert "LSWM-128 trains 0.67 times as long as torch LSTM-91 (median over seeds)." in lines
    assert "Lower loss, LSWM-128 than torch LSTM-91: on 2 of 2 seeds." in lines


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["experiment", "lswm", *map(str, arguments)])
    return ended.value.code


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "run", lambda seeds: run(seeds, epochs=1))
    assert call("--seeds", 2, "--out", tmp_path, "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found == json.loads((tmp_path / "lswm.json").read_text())
    assert f"{table(found)}\n" == (tmp_path / "lswm.md").read_text()
    assert found["seeds"] == 2
    assert len(err.splitlines()) == 2


def test_interrupted_keeps_the_seeds_that_are_done(tmp_path, capsys, monkeypatch):
    def interrupted(seeds):
        yield from run(1, epochs=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run", interrupted)
    assert call("--seeds", 3, "--out", tmp_path) == 130
    assert "interrupted; 1 of 3 seeds are in" in capsys.readouterr().err
    assert json.loads((tmp_path / "lswm.json").read_text())["seeds"] == 1
