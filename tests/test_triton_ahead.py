"""Kernels compiled without a device: what they take, against the cost model and the hardware."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastcell import space
from fastcell.backends.triton.cost import DEVICES, choose, find_device, resident_bytes
from fastcell.backends.triton.module import Storage
from fastcell.backends.triton.plan import divide
from fastcell.errors import BackendError
from fastcell.library import CELLS
from fastcell.lower import lower_backward, lower_forward

SCRIPT = Path(__file__).with_name("compile_kernels.py")
NVIDIA = ("cuda:80", "cuda:90")


def environment(folder):
    """Caches of the test's own, and the compiler in place of the interpreter."""
    found = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = {"TRITON_CACHE_DIR": str(folder / "triton"), "FASTCELL_CACHE_DIR": str(folder)}
    return {**found, **paths, "PYTHONPATH": os.pathsep.join(sys.path)}


def compiled(folder, target, hidden, cells, dtype="float32", precision="ieee"):
    """What `compile_kernels` says of each pass of the cells."""
    command = [sys.executable, SCRIPT, target, str(hidden), dtype, precision, *cells]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(folder))
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def check(passes):
    """No spills, shared memory within the device's, each kernel in under 5 s."""
    for each in passes:
        assert each["spilled"] == 0, each
        assert each["shared"] <= each["limit"], each
        assert each["seconds"] < 5, each


@pytest.mark.parametrize("target", NVIDIA)
def test_resident_kernels_fit(tmp_path, target):
    names = sorted(CELLS) if target == "cuda:90" else ["lstm", "adding_dag"]
    passes = compiled(tmp_path, target, 64, names)
    check(passes)
    assert {each["strategy"] for each in passes} == {"resident"}


def test_kernels_in_stages_fit(tmp_path):
    passes = compiled(tmp_path, "cuda:80", 256, ["lstm", "layernorm_lstm", "adding_dag"])
    check(passes)
    assert {each["strategy"] for each in passes} == {"streamed", "stepwise"}


def test_every_dtype_and_precision_compiles(tmp_path):
    check(compiled(tmp_path, "cuda:90", 20, ["mgu"], precision="tf32"))
    check(compiled(tmp_path, "cuda:90", 64, ["gru"], precision="tf32x3"))
    check(compiled(tmp_path, "cuda:90", 128, ["lstm"], dtype="bfloat16"))
    check(compiled(tmp_path, "cuda:100", 64, ["rnn"], dtype="float16"))


def test_kernels_for_amd_compile(tmp_path):
    for each in compiled(tmp_path, "hip:gfx942", 64, ["lstm"], precision="tf32"):
        assert each["shared"] <= each["limit"]
        assert each["registers"] <= 512


@pytest.mark.parametrize("target", [*NVIDIA, "hip:gfx942"])
@pytest.mark.parametrize("hidden", [64, 128, 256, 512])
@pytest.mark.slow
def test_library_and_random_cells_fit(tmp_path, target, hidden):
    codes = [str(code) for code in space.sample(100, seed=1)]
    passes = compiled(tmp_path, target, hidden, [*sorted(CELLS), *codes])
    if target in NVIDIA:
        check(passes)
    assert all(each["shared"] <= each["limit"] for each in passes)


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_the_model_of_shared_memory_is_near_the_compiler(tmp_path, precision):
    """Neither a kernel that can't be launched, nor many turned away that could be."""
    names, storage = ["lstm", "gru"], Storage("float32", precision)
    for each in compiled(tmp_path, "cuda:90", 64, names, precision=precision):
        lower = lower_backward if each["name"].endswith("backward") else lower_forward
        need = resident_bytes(divide(lower(CELLS[each["cell"]], 64, 64)), storage)
        assert each["strategy"] == "resident"
        assert 0.85 * need <= each["shared"] <= 1.05 * need


def test_the_choice_follows_the_size():
    """Held as long as it fits; then streamed, or launched step by step where that pays."""
    cell, storage = CELLS["lstm"], Storage()
    chosen = [
        choose(divide(lower_backward(cell, hidden, hidden)), storage, DEVICES["cuda:90"])
        for hidden in (8, 64, 256, 1024)
    ]
    assert [each.strategy for each in chosen] == ["resident", "resident", "streamed", "stepwise"]
    assert "136 KB of 227 KB" in chosen[1].why
    assert "us a step" in chosen[2].why


def test_half_precision_holds_more():
    plan = divide(lower_forward(CELLS["lstm"], 128, 128))
    device = DEVICES["cuda:90"]
    assert choose(plan, Storage("bfloat16"), device).strategy == "resident"
    assert choose(plan, Storage("float32"), device).strategy != "resident"


def test_unknown_devices_are_refused():
    assert find_device("cuda:103") is DEVICES["cuda:100"]
    for name in ("cuda:75", "hip:gfx90a", "cuda", "tpu:4"):
        with pytest.raises(BackendError, match=rf"expected one of .*; found {name}"):
            find_device(name)


def test_the_command(tmp_path):
    code = "from fastcell.cli import main; main()"
    command = [sys.executable, "-c", code, "compile", "mgu", "--hidden", "24", "--out", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path / "c"))
    assert run.returncode == 0, run.stderr
    assert "mgu_backward: " in run.stdout
    assert " 0 bytes spilled" in run.stdout
    assert "are loaded once" in run.stdout
    for name in ("mgu_forward.py", "mgu_forward.ptx", "mgu_backward.py", "mgu_backward.ptx"):
        assert (tmp_path / name).stat().st_size > 1000
