"""Labels: which runs they need, the rule for hopeless ones, and the file they ship in."""

import gzip
from dataclasses import replace

import pytest
from standins import fake

from fastcell import StoreError, space
from fastcell.cli import main
from fastcell.labels import (
    FULL,
    PATIENCE,
    SEED,
    Label,
    datasheet_path,
    label_runs,
    read_labels,
    rule_error,
    run_id,
    write_labels,
)
from fastcell.library import rnn
from fastcell.results import Protocol, Run, plateaued
from fastcell.training import train

LABEL = Label(
    code=1,
    seed=0,
    patience=0,
    status="done",
    epochs=3,
    best_validation=0.25,
    test=0.3,
    seconds=1.5,
    validation=(1.0, 0.5, 0.25),
)


def test_runs():
    runs = label_runs(200)
    assert len({run.id for run in runs}) == len(runs) == 200 + 2 * 50
    first = [run for run in runs if run.seed == 0]
    drawn = space.sample(200, SEED).tolist()
    assert [run.cell for run in first] == [space.decode(code) for code in drawn]
    assert [run.protocol.patience for run in first] == [0] * FULL + [PATIENCE] * (200 - FULL)
    replicated = {run.cell for run in runs if run.seed}
    assert replicated == {run.cell for run in first[:50]}


def test_more_labels_begin_with_the_fewer():
    assert [run.id for run in label_runs(90)][: len(label_runs(40))] == [
        run.id for run in label_runs(40)
    ]


@pytest.mark.parametrize(
    ("curve", "ends"),
    [
        ([1.0, 0.9, 0.9, 0.9, 0.9], True),
        ([1.0, 0.9, 0.9, 0.9], False),  # within the patience
        ([1.0, 0.9, 0.9, 0.9, 0.88], False),  # fell by more than 1 %
        ([1.0, 0.9, 0.9, 0.9, 0.895], True),  # by less
        ([1.0, 0.4, 0.4, 0.4, 0.4, 0.4], False),  # has hope
        ([1e29, 1e30, 1e30, 1e30], True),
        ([0.9, 0.9, 0.9], False),  # too short
    ],
)
def test_rule_for_hopeless_runs(curve, ends):
    assert plateaued(curve, 3) == ends
    assert not plateaued(curve, 0)


def test_a_hopeless_run_ends_early():
    """Nothing is learned at so small a rate, and the curve up to there is that of the full run."""
    protocol = Protocol(epochs=9, batch_size=512, hidden_size=4, learning_rate=1e-9)
    whole, ruled = (train(rnn, protocol=replace(protocol, patience=p)) for p in (0, 3))
    assert (whole.status, ruled.status) == ("done", "plateau")
    assert (whole.epochs, ruled.epochs) == (9, 4)
    assert ruled.validation == whole.validation[:4]
    assert ruled.test is not None


def test_error_of_the_rule():
    flat, late = (1.0,) * 100, (1.0,) * 80 + (0.01,)
    labels = [replace(LABEL, validation=curve) for curve in (flat, late, (1.0, 0.1), ())]
    error = rule_error(labels)
    assert (error.runs, error.ended, error.wrong) == (3, 2, 1)
    assert error.epochs_saved == pytest.approx(1 - (61 + 61 + 2) / (100 + 81 + 2))
    assert rule_error([replace(label, patience=60) for label in labels]).runs == 0


def test_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LOG", str(tmp_path.parent / "log"))
    path = tmp_path / "labels.jsonl.gz"
    code = int(space.encode(space.decode(space.sample(1, 3)[0])))
    run = Run(space.decode(code), "adding", Protocol(), 4)
    labels = [Label.of(fake(run.cell, run.task, run.protocol, run.seed, print)), LABEL]
    write_labels(path, labels)
    assert sorted(read_labels(path), key=lambda label: label.code) == [LABEL, labels[0]]
    assert labels[0].code == code
    once = path.read_bytes()
    write_labels(path, reversed(labels))
    assert path.read_bytes() == once
    assert sorted(tmp_path.iterdir()) == [path, datasheet_path(path)]
    assert "2 training runs of 2 cells" in datasheet_path(path).read_text()


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"code": 1}\n', b"nonsense"])
def test_what_is_no_label_file_is_refused(tmp_path, content):
    path = tmp_path / "labels.jsonl.gz"
    path.write_bytes(gzip.compress(content)[:-3] if content else b"x")
    with pytest.raises(StoreError, match="expected a file that `fastcell label` wrote"):
        read_labels(path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="expected a file that can be written"):
        write_labels(tmp_path / "none" / "labels.jsonl.gz", [LABEL])


def test_going_on_from_a_file(tmp_path, monkeypatch):
    """What the file has is not trained again, and stays as it is."""
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setattr("fastcell.training.train", fake)
    out = tmp_path / "label"
    out.mkdir()
    first, *others = label_runs(3)
    known = replace(LABEL, code=first.code)
    write_labels(out / "labels.jsonl.gz", [known])
    with pytest.raises(SystemExit):
        main(["label", "--cells", "3", "--out", str(out)])
    found = {label.id: label for label in read_labels(out / "labels.jsonl.gz")}
    assert found.keys() == {known.id, *map(run_id, others)}
    assert found[known.id] == known
    assert (tmp_path / "log").read_text().split() == [run.cell.key for run in others]
