"""The command line as a user has it: what is printed, where, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import fastcell
from fastcell import space
from fastcell.cli import app, main
from fastcell.equations import equations
from fastcell.library import CELLS, adding_dag, lstm
from fastcell.results import Protocol
from fastcell.store import Store
from fastcell.wording import show_nmse

SCRIPT = """
import signal
from fastcell.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
main()
"""
COMMAND = [sys.executable, "-c", SCRIPT]
TINY = ["--epochs", "1", "--hidden-size", "8", "--batch-size", "512"]


@pytest.fixture
def call(capsys):
    """Runs a command here: (exit code, stdout, stderr)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


def start(*arguments, **options):
    """Runs a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*COMMAND, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, **options
    )


def test_show(call):
    code, out, err = call("show", "adding_dag")
    assert (code, err) == (0, "")
    assert out.startswith(f"{adding_dag}\n")
    for line in (
        "    gate0ₜ = σ(W_gate0 [cₜ₋₁; xₜ] + b_gate0) ⊙ gₜ",
        "    hₜ = hₜ₋₁ + gate1ₜ",
        "parameters  33,024 at input size 64, hidden size 64",
        "            gate0.weight 64 x 128",
        f"key         {adding_dag.key}",
        f"code        {space.encode(adding_dag)}",
        "order       gate0, gate1, add, gate2",
    ):
        assert line in out.splitlines()


def test_show_a_cell_outside_the_space(call):
    _, out, _ = call("show", "gru")
    assert "code        none: it is not in the search space" in out.splitlines()


def test_show_json(call):
    code, out, err = call("show", "lstm", "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert fastcell.parse(facts["text"]) == lstm
    assert facts["parameter_count"] == 33_024
    assert facts["parameters"]["i.weight"] == [64, 128]
    assert facts["key"] == lstm.key


def test_show_dot_and_latex(call):
    assert call("show", "lstm", "--dot") == (0, f"{lstm.to_dot()}\n", "")
    assert call("show", "lstm", "--latex") == (0, f"{lstm.to_latex()}\n", "")
    assert call("show", "lstm", "--latex", "--dot")[0] == 2


def test_show_a_code_and_a_file(call, tmp_path):
    code = int(space.sample(1)[0])
    facts = json.loads(call("show", code, "--json")[1])
    assert facts["code"] == code
    assert facts["order"] == list(space.ORDERS[int(space.order(code))])
    path = tmp_path / "cell.txt"
    path.write_text(facts["text"])
    assert json.loads(call("show", path, "--json")[1])["key"] == facts["key"]


@pytest.mark.parametrize("name", CELLS)
def test_equations_are_plain(name):
    rows = equations(CELLS[name])
    assert not any(sign in row for row in rows for sign in "\\{}&")
    assert len(rows) == len(CELLS[name].to_latex().splitlines()) - 2


def test_equations_of_awkward_cells():
    cell = fastcell.parse("""
def odd(x, h):
    long_name = abs(linear(x, h, bias=False)) / (1 + exp(-x))
    return silu(long_name) - layernorm(h / long_name) * vector(0.5)
""")
    first, last = equations(cell)
    assert first == "long_nameₜ = (|W_long_name [xₜ; hₜ₋₁]|) / (1 + exp(-xₜ))"
    assert last == "hₜ = silu(long_nameₜ) - LN((hₜ₋₁) / (long_nameₜ)) ⊙ h"


def test_space_count(call):
    assert call("space", "count") == (0, f"{space.count():,}\n", "")
    facts = json.loads(call("space", "count", "--json")[1])
    assert facts == {"space": space.SPACE_VERSION, "count": space.count()}


def test_space_sample(call, tmp_path):
    expected = space.sample(30, seed=3, orders=5).tolist()
    arguments = ("space", "sample", 30, "--seed", 3, "--orders", 5)
    assert [int(line) for line in call(*arguments)[1].split()] == expected
    assert json.loads(call(*arguments, "--json")[1]) == expected
    path = tmp_path / "codes.npy"
    assert call(*arguments, "--out", path) == (0, "", f"30 codes in {path}\n")
    assert np.load(path).tolist() == expected


def test_space_stats(call):
    facts = json.loads(call("space", "stats", 240, "--json")[1])
    assert sum(row["count"] for row in facts["orders"]) == facts["count"] == space.count()
    assert [row["sampled"] for row in facts["orders"]] == [10] * 24
    assert 0 < facts["distinct_functions"] <= facts["sampled"] == 240
    out = call("space", "stats", 240)[1].splitlines()
    assert len([line for line in out if line.startswith(("gate", "add"))]) == 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nope"], "cell: expected one of rnn, lstm, .* a code or a file, found 'nope'"),
        (["show", "."], "expected a file with a cell's text, found .* Is a directory"),
        (["show", "5"], "expected codes of cells, found 5"),
        (["show", str(2**70)], "expected codes"),
        (["show"], "Missing argument"),
        (["show", "lstm", "--colour"], "No such option: --colour"),
        (["dance"], "No such command 'dance'"),
        (["space", "sample", "-1"], "No such option: -1"),
        (["space", "sample", "3", "--orders", "25"], "orders: expected a whole number"),
        (["space", "sample", "3", "--out", "/dev/null/x"], "--out: expected a file"),
        (["train", "rnn", "--clip", "-1"], "clip: expected a number >= 0, found -1"),
        (["train", "rnn", "--dtype", "int8"], "dtype: expected one of float32, float64"),
        (["train", "rnn", "--seed", "-1"], "seed: expected a whole number"),
        (["search", "--train", "7", "--candidates", "6"], "train: expected a number of the 6"),
        (["search", "--jobs", "0"], "--jobs"),
        (["search", "--candidates", "6", "--out", "/dev/null/x"], "--out: expected a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(call, arguments, message):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert re.search(message, err)


def test_bad_text_is_located(call, tmp_path):
    path = tmp_path / "cell.txt"
    path.write_text("def f(x, h):\n    return tan(linear(x, h))\n")
    code, _, err = call("show", path)
    assert code == 2
    assert err.startswith("error: line 2, column 12: found unknown function 'tan', expected one of")


def test_help():
    for arguments in ([], ["search"], ["train"], ["show"], ["space"], ["space", "sample"]):
        result = CliRunner().invoke(app, [*arguments, "--help"])
        assert result.exit_code == 0
        assert result.output.startswith("Usage: ")


def test_nothing_given_is_help(call):
    code, out, _ = call()
    assert code == 0
    assert all(name in out for name in ("search", "train", "show", "space"))


def test_show_and_space_need_no_torch():
    script = """
import sys
from fastcell.cli import main
for arguments in (["show", "lstm"], ["space", "count"], ["space", "stats", "24"]):
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code
assert not {"torch", "rich"} & sys.modules.keys()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, env=environment
    )


def test_a_reader_that_leaves():
    with start("space", "sample", 200_000) as process:
        process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_train_and_train_again(call, tmp_path):
    arguments = ("train", "rnn", space.encode(adding_dag), "--seeds", 2, "--out", tmp_path, *TINY)
    code, out, err = call(*arguments, "--json")
    results = json.loads(out)
    assert code == 0
    assert "training 4 runs" in err
    assert {(r["cell_key"], r["seed"]) for r in results} == {
        (cell.key, seed) for cell in (CELLS["rnn"], adding_dag) for seed in (0, 1)
    }
    code, out, err = call(*arguments)
    assert (code, err) == (0, "training 0 runs; 4 more are recorded\n")
    heading = "cell seed parameters best validation NMSE test NMSE epochs seconds status"
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert heading in lines
    rnn_line = next(line for line in lines if line.startswith("rnn * 0 "))
    expected = next(r for r in results if r["name"] == "rnn" and r["seed"] == 0)
    assert show_nmse(expected["best_validation"]) in rnn_line.split()
    assert "* a known cell, to compare with" in lines


def test_every_protocol_option_arrives(call, tmp_path):
    options = {
        "epochs": 1,
        "batch_size": 1000,
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "clip": 0.25,
        "hidden_size": 3,
        "dtype": "float64",
        "patience": 2,
    }
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    results = json.loads(call("train", "mgu", *given, "--json", "--out", tmp_path)[1])
    assert results[0]["protocol"] == options
    with Store(tmp_path / "results.sqlite") as store:
        assert store.results()[0].protocol == Protocol(**options)


def test_a_run_that_diverges_is_told(call, tmp_path):
    path = tmp_path / "cell.txt"
    path.write_text("def runaway(x, h):\n    return exp(exp(exp(linear(x, h)) + 4))\n")
    code, out, err = call("train", path, "--out", tmp_path, *TINY)
    assert code == 0
    assert "runaway, seed 0, diverged" in err
    assert "runaway: training loss was nan in epoch 1" in out.splitlines()


@pytest.mark.parametrize("value", [(None, "-"), (0.00003775, "0.00003775"), (1.91e36, "1.91e+36")])
def test_nmse_as_text(value):
    number, text = value
    assert show_nmse(number) == text


def test_interrupt_and_resume(call, tmp_path):
    """Ctrl-C reaches the whole process group; then the same search, with any --jobs, goes on."""
    arguments = ("search", "--candidates", 100, "--train", 1, "--out", tmp_path)
    arguments += ("--epochs", 40, *TINY[2:])  # long enough to be interrupted
    with start(*arguments, "--jobs", 2, start_new_session=True) as process:
        assert process.stderr.readline().startswith("sample: 100 cells in")
        assert process.stderr.readline().startswith("screen: 100 cells in")
        assert process.stderr.readline() == "training 4 runs\n"
        assert process.stderr.readline().startswith("1 of 4: ")
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "this goes on: fastcell search --candidates 100 --train 1 --out" in err
    assert "Traceback" not in err
    with Store(tmp_path / "results.sqlite") as store:
        recorded = {result.id: result for result in store.results()}
    assert 1 <= len(recorded) < 4
    code, out, err = call(*arguments)
    assert code == 0
    assert f"training {4 - len(recorded)} runs; {len(recorded)} more are recorded\n" in err
    assert "of 100 candidates pass" in out
    assert "Trained: the 1 most promising of them." in out
    with Store(tmp_path / "results.sqlite") as store:
        assert recorded.items() <= {result.id: result for result in store.results()}.items()
        assert len(store.results()) == 4


def test_search_json_and_other_options(call, tmp_path):
    arguments = ("search", "--candidates", 50, "--train", 0, "--out", tmp_path, *TINY)
    code, out, _ = call(*arguments, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["options"]["candidates"] == 50
    assert {row["name"] for row in found["results"]} == {"rnn", "lstm", "adding_dag"}
    assert all(row["reference"] for row in found["results"])
    code, out, err = call(*arguments, "--seed", 1)
    assert (code, out) == (2, "")
    assert "it holds (seed 0), found seed 1; give the same ones, or another folder" in err


def test_compile_for_the_cpu(call):
    code, out, err = call("compile", "lstm", "--target", "cpu", "--hidden", 8)
    assert (code, err) == (0, "")
    assert out.startswith("program lstm: forward; I = 8, H = 8\n")
    assert re.search(r"^    LOOP +sigmoid ", out, re.M)


def test_compile_refuses_what_it_can_not_do(call):
    assert call("compile", "lstm", "--target", "cuda:30")[0] == 2
    code, _, err = call("compile", "rnn", "--hidden", 8)
    assert (code, "expected Triton's compiler, found its interpreter" in err) == (2, True)
