"""The C++ tile machine among threads, forks and malformed programs."""

import multiprocessing
import re
import threading

import numpy as np
import pytest
from assembler import Assembler
from lstm_program import lstm, lstm_arguments

from fastcell import _C

pytestmark = pytest.mark.usefixtures("isa")


def test_several_python_threads_at_once():
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16)
    program = lstm(*arguments).assemble()
    wrong = []

    def work():
        mine = [*arguments[:6], np.zeros_like(arguments[6]), np.zeros_like(arguments[7])]
        asm = lstm(*mine)
        for _ in range(20):
            program.run(asm.described(), 20, 16, 2)
            wrong.extend(
                a is b for a, b in zip(mine, arguments, strict=True) if not np.array_equal(a, b)
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run_in_child(queue):
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16, threads=2)
    queue.put(arguments[-1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork():
    arguments = lstm_arguments(20, 16, 30, 40)
    lstm(*arguments).run(20, 16, threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=run_in_child, args=(queue,))
    child.start()
    found = queue.get(timeout=30)
    child.join()
    np.testing.assert_array_equal(found, arguments[-1])


def test_profile():
    arguments = lstm_arguments(20, 16, 30, 40)
    asm = lstm(*arguments)
    seconds = asm.assemble().profile(asm.described(), 20, 16, 2)
    assert set(seconds) == {"pack", "load", "gemm", "sigmoid", "tanh", "mul", "muladd", "store"}
    assert all(0 < s < 10 for s in seconds.values())


def test_fma_peak_and_workspace():
    assert _C.fma_peak(threads=1, seconds=0.01) > 1e9
    program = lstm(*lstm_arguments(1, 1, 64, 64)).assemble()
    weights = 2 * 64 * 256 * 4
    assert weights < program.workspace_bytes(T=48, B=64, threads=2) < weights + (1 << 20)


def test_the_instruction_set_is_chosen_by_name(isa, monkeypatch):
    assert _C.isa() == isa == Assembler().assemble().isa
    monkeypatch.setenv("FASTCELL_ISA", "mmx")
    with pytest.raises(ValueError, match=r"FASTCELL_ISA: found mmx, this machine supports"):
        Assembler().assemble()


FAULTS = {
    "buffer 0: kind: found 6": lambda asm: asm.buffers.insert(0, (6, 0, 4, -1, -1)),
    "buffer 2: width: found 0": lambda asm: asm.buffer("TILE", 0),
    "buffer 2: rows: found 3, expected 1 or its width": lambda asm: asm.buffer("ROW", 4, 3, 0),
    "buffer 2: tensor_a: found 9": lambda asm: asm.buffer("ROW", 4, 4, 9),
    "buffer 2: tensor_b: found 1": lambda asm: asm.buffer("CARRY", 4, 0, -1, 1),
    "buffer 2: rows: found 16777217": lambda asm: asm.buffer("GRAD", 4, (1 << 24) + 1),
    "opcode: found -1": lambda asm: asm.code.append((0, -1, *[0] * 11)),
    "section: found 5": lambda asm: asm.code.append((5, 0, *[0] * 11)),
    "load: section: found SETUP, expected PRE, LOOP": lambda asm: asm.emit(
        "SETUP", "load", 4, 0, 0
    ),
    "unpack: section: found LOOP, expected FINISH": lambda asm: asm.emit("LOOP", "unpack", 4, 0, 0),
    "load: width: found 0": lambda asm: asm.emit("LOOP", "load", 0, 0, 0),
    "load: a: found 1, expected 0 to 0": lambda asm: asm.emit("LOOP", "load", 4, 0, 1),
    "load: extra0: found 1": lambda asm: asm.emit("LOOP", "load", 4, 0, 0, extra0=1),
    "add: dst: found 2, expected 0 to 1": lambda asm: asm.emit("LOOP", "add", 4, 2, 0, 0),
    "add: b: found -1, expected 0 to 1": lambda asm: asm.emit("LOOP", "add", 4, 0, 0),
    "add: dst: found TILE, expected CHUNK": lambda asm: asm.emit("PRE", "add", 4, 0, 1, 1),
    "copy: a: column: found 8": lambda asm: asm.emit("LOOP", "copy", 4, 0, (1, 8)),
    "copy: a: last column: found 48": lambda asm: asm.emit("LOOP", "copy", 4, 0, (1, 32)),
    "copy: a: found columns of dst": lambda asm: asm.emit(
        "LOOP", "copy", 17, (asm.buffer("TILE", 48), 16), 2
    ),
    "mul: dst: found WEIGHT": lambda asm: asm.emit(
        "LOOP", "mul", 4, asm.buffer("WEIGHT", 4, 4), 0, 0
    ),
    "gemm: b: found TILE, expected WEIGHT": lambda asm: asm.emit("LOOP", "gemm", 4, 0, 1, 1),
    "gemm: width: found 5": lambda asm: asm.emit(
        "LOOP", "gemm", 5, 0, 1, asm.buffer("WEIGHT", 4, 4)
    ),
    "gemm: a: found columns of dst": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 1, 1, asm.buffer("WEIGHT", 4, 4)
    ),
    "gemm: a: last column: found 64": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 0, 1, asm.buffer("WEIGHT", 4, 64)
    ),
    "gemm: c: found TILE, expected ROW": lambda asm: asm.emit(
        "LOOP", "gemm", 4, 0, 1, asm.buffer("WEIGHT", 4, 4), 1, extra0=2
    ),
    "outer: a: last column: found 0": lambda asm: asm.emit(
        "LOOP", "outer", 4, asm.buffer("GRAD", 4, 4), 0, 0
    ),
    "outer: first row: found 3": lambda asm: asm.emit(
        "LOOP", "outer", 4, (asm.buffer("GRAD", 4, 4), 3), 0, 0, extra0=2
    ),
    "sumrows: dst: last column: found 32": lambda asm: asm.emit(
        "LOOP", "sumrows", 17, asm.buffer("GRAD", 4, 1), 1
    ),
    "pack: first column: found 1": lambda asm: asm.emit(
        "SETUP", "pack", 4, asm.buffer("WEIGHT", 4, 4), 0, (0, 0), (0, 1), extra0=4
    ),
    "unpack: c: column: found 1": lambda asm: asm.emit(
        "FINISH", "unpack", 1, 0, asm.buffer("GRAD", 4, 4), (0, 0), (0, 1), extra0=1
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_malformed_programs(message):
    """Buffer 0 is a TILE of 4 columns, buffer 1 one of 32; there is one tensor."""
    asm = Assembler()
    asm.buffer("TILE", 4)
    asm.buffer("TILE", 32)
    asm.tensor(np.zeros((1, 1, 4), "float32"))
    FAULTS[message](asm)
    with pytest.raises(ValueError, match=re.escape(message)):
        asm.assemble()


def test_malformed_calls():
    arguments = lstm_arguments(1, 1, 2, 3)
    asm = lstm(*arguments)
    program, described = asm.assemble(), asm.described()
    for message, call in {
        "tensors: found 1, expected 9": (described[:1], 1, 1, 1),
        "tensors: expected an array (tensors, 3)": (described[:, :2], 1, 1, 1),
        "T: found -1": (described, -1, 1, 1),
        "B: found -1": (described, 1, -1, 1),
        "threads: found 0": (described, 1, 1, 0),
        "tensor 4: found 0, expected an address": (described * 0, 1, 1, 1),
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            program.run(*call)
    with pytest.raises(ValueError, match="dtype: found float16"):
        _C.ScanProgram("float16", 0, np.zeros((0, 5), np.int32), np.zeros((0, 13), np.int32), False)
    with pytest.raises(ValueError, match=r"buffers: expected an array \(rows, 5\)"):
        _C.ScanProgram("float32", 0, np.zeros((1, 4), np.int32), np.zeros((0, 13), np.int32), False)
