"""The Triton engine's source: golden copies, expressions, and the files that hold it."""

import ast
import multiprocessing
import subprocess
import sys

import pytest
import torch

import fastcell
from fastcell.backends.eager import TorchAlgebra
from fastcell.backends.triton import cache, resident, streamed
from fastcell.backends.triton.expression import Term, apply, helper, is_helper, number
from fastcell.backends.triton.module import Storage, Tile, kernel_name
from fastcell.backends.triton.plan import divide
from fastcell.backends.triton.stages import cut
from fastcell.library import CELLS
from fastcell.lower import lower_backward, lower_forward
from fastcell.ops import UNARY, Reads

TILE = Tile()
a, b, c = Term("a"), Term("b"), Term("c")


def sources(cell, hidden, storage=Storage()):  # noqa: B008  frozen
    programs = lower_forward(cell, hidden, hidden), lower_backward(cell, hidden, hidden)
    return [resident.write(divide(program), TILE, storage) for program in programs]


@pytest.mark.parametrize(
    ("name", "hidden"), [("lstm", 64), ("adding_dag", 64), ("gru", 100), ("layernorm_lstm", 64)]
)
def test_golden_source(golden, name, hidden):
    golden(f"triton_{name}.txt", "\n".join(sources(CELLS[name], hidden)))


@pytest.mark.parametrize("stepwise", [False, True])
def test_golden_source_in_stages(golden, stepwise):
    program = lower_backward(CELLS["gru"], 256, 256)
    source = streamed.write(cut(divide(program)), TILE, Storage(), stepwise)
    golden(f"triton_gru_{'stepwise' if stepwise else 'streamed'}.txt", source)


def test_source_is_python_of_the_house_width(cell):
    plans = [divide(lower(cell, 91, 91)) for lower in (lower_forward, lower_backward)]
    staged = [
        streamed.write(cut(plan), TILE, Storage(), stepwise)
        for plan in plans
        for stepwise in (False, True)
    ]
    for source in [*sources(cell, 91), *staged]:
        ast.parse(source)
        assert max(map(len, source.splitlines())) <= 100


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (a + b * c, "a + b * c"),
        ((a + b) * c, "(a + b) * c"),
        (a - (b - c), "a - (b - c)"),
        ((a - b) - c, "a - b - c"),
        (a / (b * c), "a / (b * c)"),
        (-a * b, "-a * b"),
        (-(a + b), "-(a + b)"),
        (1 - a, "1 - a"),
        (a - number(-2.0), "a - -2"),
        (a * -0.5, "a * (-0.5)"),
        (apply("muladd", [a + b, c, -a]), "(a + b) * c + (-a)"),
    ],
    ids=str,
)
def test_expressions_mean_what_they_say(term, text):
    values = {"a": 2.0, "b": 3.0, "c": 5.0}
    assert eval(term.text, values) == eval(text, values)


def test_expressions_have_no_needless_brackets():
    assert (a * b + c - 1).text == "a * b + c - 1"
    assert ((a + b) * (1 - c)).text == "(a + b) * (1 - c)"


@pytest.mark.parametrize("op", UNARY)
def test_operations_written_out_are_their_formulas(op):
    """The text of value and derivative, evaluated by torch under the names that kernels use."""
    points = torch.linspace(0.1, 3, 7, dtype=torch.float64)
    algebra = TorchAlgebra()
    names = {"tl": algebra, "softsign": algebra.softsign, "sign": torch.sign}
    names |= {name: getattr(torch, name) for name in ("sigmoid", "tanh", "relu")}
    saved = UNARY[op].forward(algebra, points) if UNARY[op].reads is Reads.OUTPUT else points
    for full, arguments, expected in (
        (op, [points], UNARY[op].forward(algebra, points)),
        (f"{op}_grad", [points, saved], UNARY[op].derivative(algebra, points, saved)),
    ):
        if is_helper(full):
            exec("\n".join(helper(full)[1:]), names)
        values = dict(zip("ab", arguments, strict=False))
        text = apply(full, [a, b][: len(arguments)]).text
        torch.testing.assert_close(eval(text, names, values), expected)


def test_the_precision_and_the_sizes_are_in_the_source():
    texts = {
        source
        for hidden in (64, 65)
        for storage in (Storage(), Storage("bfloat16"), Storage("float32", "tf32"))
        for source in sources(CELLS["lstm"], hidden, storage)
    }
    assert len(texts) == 12


def write_many(folder, sources):
    import os

    os.environ["FASTCELL_CACHE_DIR"] = folder
    for _ in range(20):
        for source in sources:
            assert cache.store("kernel", source).read_text() == source


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_that_write_at_once(tmp_path):
    texts = [f"# {number}\n" * 1000 for number in range(5)]
    context = multiprocessing.get_context("fork")
    args = str(tmp_path), texts
    writers = [context.Process(target=write_many, args=args) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert len(list(tmp_path.iterdir())) == 5


def test_a_module_comes_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTCELL_CACHE_DIR", str(tmp_path / "new"))
    cell = CELLS["rnn"]
    program = lower_forward(cell, 4, 4)
    source = resident.write(divide(program), TILE, Storage())
    module = cache.load(kernel_name(program), source)
    (path,) = (tmp_path / "new").iterdir()
    assert path.read_text() == source
    assert module.__file__ == str(path)
    assert hasattr(module, "rnn_forward")


def test_a_folder_that_can_not_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FASTCELL_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(fastcell.StoreError, match=r"FASTCELL_CACHE_DIR.*found"):
        cache.store("kernel", "# text")


def test_the_cpu_needs_no_triton():
    code = (
        "import sys; sys.modules['triton'] = None; import fastcell, torch;"
        "m = fastcell.Recurrent(fastcell.library.lstm, 3, 4);"
        "m(torch.ones(2, 3, 3))[0].sum().backward(); print(m.layers[0].i.weight.grad.shape[0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "4"
