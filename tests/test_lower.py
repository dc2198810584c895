"""Lowering, run by the torch interpreter, against eager autograd in float64."""

from random import Random

import pytest
import torch
from program_text import write
from programs import random_program

from fastcell import _C, parse
from fastcell.backends import eager, interpreter
from fastcell.library import CELLS
from fastcell.lower import lower_backward, lower_forward, saved_sequences
from fastcell.ops import BINARY, UNARY

T, B = 5, 3


def make_case(cell, input_size, hidden_size, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        value = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.5
        return value.requires_grad_()

    x = rand(T, B, input_size)
    states = tuple(rand(B, hidden_size) for _ in cell.states)
    shapes = cell.parameters(input_size, hidden_size)
    return x, states, {name: rand(*shape) for name, shape in shapes.items()}


def eager_gradients(cell, x, states, parameters):
    """Histories, gradients of y and finals, and the gradients that autograd gives."""
    histories = eager.trajectories(cell, x, states, parameters)
    finals = tuple(history[-1] for history in histories)
    generator = torch.Generator().manual_seed(1)
    output = histories[0][1:]
    seeds = [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in (output, *finals)]
    leaves = [x, *states, *parameters.values()]
    grads = torch.autograd.grad((output, *finals), leaves, seeds, materialize_grads=True)
    return histories, seeds, grads


def run_lowered(cell, x, states, parameters, seeds):
    """Forward and backward Programs by the interpreter, as (writes, gradients by leaf)."""
    sizes = x.shape[-1], states[0].shape[-1]
    names = [node.name for node in cell.sources]
    initial = dict(zip(names[1:], states, strict=True))
    forward = interpreter.run(lower_forward(cell, *sizes), {names[0]: x}, initial, parameters)
    sequences = {names[0]: x, **forward.writes, f"grad.{names[1]}": seeds[0]}
    initial |= {f"grad.{name}": seed for name, seed in zip(names[1:], seeds[1:], strict=True)}
    backward = interpreter.run(lower_backward(cell, *sizes), sequences, initial, parameters)
    grads = [backward.writes.get(f"grad.{names[0]}", torch.zeros_like(x))]
    grads += [backward.carries[f"grad.{name}"] for name in names[1:]]
    grads += [parameter_gradient(backward.sums, name, p) for name, p in parameters.items()]
    return forward, grads


def parameter_gradient(sums, name, parameter):
    if parameter.dim() == 2:
        blocks = [key for key in sums if key.startswith(f"{name}[")]
        return torch.cat([sums[key] for key in sorted(blocks)], -1)
    return sums[name].sum() if parameter.dim() == 0 else sums[name]


@pytest.mark.parametrize("name", sorted(CELLS))
@torch.no_grad()
def test_programs_match_eager(name):
    cell = CELLS[name]
    input_size = 4 if cell.uses_input_elementwise else 3
    x, states, parameters = make_case(cell, input_size, 4)
    with torch.enable_grad():
        histories, seeds, expected = eager_gradients(cell, x, states, parameters)
    forward, grads = run_lowered(cell, x, states, parameters, seeds)
    torch.testing.assert_close(forward.writes[cell.states[0].name], histories[0][1:])
    for gradient, reference_gradient in zip(grads, expected, strict=True):
        torch.testing.assert_close(gradient, reference_gradient)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "layernorm_lstm", "adding_dag"])
def test_listings(golden, name):
    """What `print(program)` shows, forward and backward."""
    programs = lower_forward(CELLS[name], 64, 64), lower_backward(CELLS[name], 64, 64)
    golden(f"program_{name}.txt", "\n\n".join(map(str, programs)))


@pytest.mark.parametrize("seed", range(60))
@torch.no_grad()
def test_random_programs_match_eager(seed):
    rng = Random(seed)
    cell = parse(write(random_program(rng, size=12), rng))
    x, states, parameters = make_case(cell, 4, 4, seed)
    with torch.enable_grad():
        _, seeds, expected = eager_gradients(cell, x, states, parameters)
    _, grads = run_lowered(cell, x, states, parameters, seeds)
    for gradient, reference_gradient in zip(grads, expected, strict=True):
        torch.testing.assert_close(gradient, reference_gradient, rtol=1e-8, atol=1e-8)


def test_backward_can_leave_the_input_out():
    whole, without = (lower_backward(CELLS["gru"], 64, 64, wanted) for wanted in (True, False))
    assert [name for name, _ in whole.writes] == ["grad.x"]
    assert not without.writes
    assert without.sums == whole.sums


def test_what_is_kept():
    """Products and the states that the derivative reads; nothing that arithmetic gives back."""
    assert saved_sequences(CELLS["rnn"]) == ()
    assert saved_sequences(CELLS["lstm"]) == ("c", "kept.i", "kept.f", "kept.g", "kept.o")
    assert len(saved_sequences(CELLS["adding_dag"])) == 5


def test_op_tables_agree():
    """The rows of csrc/ops.def are those of ops.py, and derivatives read the same."""
    assert {name: op.reads.value for name, op in UNARY.items()} == _C.DERIVATIVE_READS
    assert {*BINARY, "muladd", *(f"{name}_grad" for name in UNARY)} <= set(_C.OPCODES)
