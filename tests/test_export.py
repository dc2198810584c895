"""Results for other programs: read back, they are what went in."""

import csv
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcell.cli import main
from fastcell.errors import ExtraError
from fastcell.export import FORMATS, to_csv, to_json, to_parquet
from fastcell.library import CELLS, adding_dag, gru, rnn
from fastcell.results import Protocol, Result, Run
from fastcell.store import Store

DONE = Result.of(
    Run(adding_dag, "adding", Protocol(epochs=7, clip=0.5), 3),
    "done",
    epochs=2,
    validation=(0.5, 1e-7),
    test=1 / 3,
    seconds=1.25,
)
DIVERGED = Result.of(
    Run(gru, "adding", Protocol(), 2**63 - 1), "diverged", error='a, "b"', epochs=1
)


def read_csv(content):
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_csv():
    first, second = read_csv(to_csv([DONE, DIVERGED]))
    assert (int(first["code"]), float(first["test"])) == (DONE.code, DONE.test)
    assert first["cell_text"] == DONE.cell_text
    assert (first["epochs"], first["protocol.epochs"], first["protocol.clip"]) == ("2", "7", "0.5")
    assert (second["code"], second["test"], second["error"]) == ("", "", 'a, "b"')
    assert second["seed"] == str(2**63 - 1)
    assert "validation" not in first


@pytest.mark.parametrize("results", [[DONE, DIVERGED], [DIVERGED], []])
def test_json(results):
    again = [Result.from_json(json.dumps(row)) for row in json.loads(to_json(results))]
    assert again == results


@pytest.mark.parametrize("results", [[DONE, DIVERGED], [DIVERGED], []])
def test_parquet(results):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(to_parquet(results)))
    assert [Result.from_json(json.dumps(row)) for row in table.to_pylist()] == results
    kinds = {name: str(table.schema.field(name).type) for name in ("code", "test", "error")}
    assert kinds == {"code": "int64", "test": "double", "error": "string"}


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_survives_csv(text):
    result = Result.of(Run(rnn, "adding", Protocol(), 0), "failed", error=text)
    assert read_csv(to_csv([result]))[0]["error"] == text


def test_parquet_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExtraError, match=r"pyarrow, found none: pip install fastcell\[parquet\]"):
        to_parquet([DONE])


@pytest.fixture
def run(tmp_path):
    """A folder with 6 results: three cells, two seeds, one of the runs diverged."""
    with Store(tmp_path / "results.sqlite") as store:
        for name in ("rnn", "lstm", "adding_dag"):
            for seed in (0, 1):
                each = Run(CELLS[name], "adding", Protocol(), seed)
                ended = "diverged" if (name, seed) == ("rnn", 1) else "done"
                store.add(Result.of(each, ended, validation=(len(name) / 100 + seed / 1000,)))
    return tmp_path


@pytest.fixture
def call(capfdbinary):
    """Runs `fastcell results`: (exit code, stdout, stderr)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["results", *map(str, arguments)])
        out, err = capfdbinary.readouterr()
        return ended.value.code, out, err.decode()

    return run


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["rnn 0", "lstm 0", "lstm 1", "adding_dag 0", "adding_dag 1", "rnn 1"]),
        (["--status", "diverged"], ["rnn 1"]),
        (["--seed", 1], ["lstm 1", "adding_dag 1", "rnn 1"]),
        (["--cell", "lstm"], ["lstm 0", "lstm 1"]),
        (["--cell", DONE.code, "--seed", 0], ["adding_dag 0"]),
        (["--cell", DONE.cell_key, "--status", "plateau"], []),
    ],
)
def test_filters_and_order(run, call, filters, expected):
    code, out, err = call(run, "--format", "csv", *filters)
    assert (code, err) == (0, "")
    assert [f"{row['name']} {row['seed']}" for row in read_csv(out)] == expected


def test_table(run, call):
    code, out, _ = call(run, "--cell", "lstm")
    lines = [" ".join(line.split()) for line in out.decode().splitlines()]
    assert code == 0
    assert [line[:8] for line in lines if line.startswith("lstm")] == ["lstm * 0", "lstm * 1"]


@pytest.mark.parametrize("name", FORMATS)
def test_out_is_what_stdout_has(run, call, tmp_path, name):
    path = tmp_path / "exported"
    _, out, _ = call(run, "--format", name)
    assert call(run, "--format", name, "--out", path) == (0, b"", f"{path}\n")
    assert path.read_bytes() == out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x"], "--out: expected --format csv, json or parquet, found table"),
        (["--format", "csv", "--out", "/dev/null/x"], "expected a file that can be written"),
        (["--format", "xml"], "Invalid value for '--format'"),
        (["--status", "fine"], "Invalid value for '--status'"),
    ],
)
def test_errors(run, call, arguments, message):
    code, out, err = call(run, *arguments)
    assert (code, out) == (2, b"")
    assert message in err


def test_no_run_there(call, tmp_path):
    code, _, err = call(tmp_path)
    assert code == 2
    assert f"{tmp_path}: expected the folder of a run, with a results.sqlite, found none" in err
    assert not list(tmp_path.iterdir())
