"""Sequences of unequal lengths, packed or with `lengths=`: each row is as it is alone."""

import re

import numpy as np
import pytest
import torch
from conftest import TOLERANCE
from hypothesis import given
from hypothesis import strategies as st
from programs import random_text
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch_pairs import MODES, SIZES, label, options, pair, results, states_for, tensors_of

import fastcell
from fastcell import Recurrent, ShapeError, library
from fastcell.backends import eager
from fastcell.library import CELLS
from fastcell.scan import compiled_scan

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def batch_sizes_of(lengths):
    return torch.tensor([sum(each > t for each in lengths) for t in range(max(lengths))])


def scan_results(scan, cell, lengths, hidden, dtype, reverse, seed=0):
    """Output and finals of a packed run, and the gradients of x, states and parameters."""
    rng = np.random.default_rng(seed)

    def draw(*size):
        values = torch.tensor(rng.standard_normal(size), dtype=torch.float64)
        return (values * (size[-1] ** -0.5 if size else 1)).to(dtype).requires_grad_()

    inputs = hidden if cell.uses_input_elementwise else 3
    x, batch_sizes = draw(sum(lengths), inputs), batch_sizes_of(lengths)
    states = tuple(draw(len(lengths), hidden) for _ in cell.states)
    parameters = {name: draw(*size) for name, size in cell.parameters(inputs, hidden).items()}
    output, finals = scan(cell, x, states, parameters, batch_sizes, reverse)
    values = [output, *finals]
    seeds = [draw(*each.shape).detach() for each in values]
    leaves = [x, *states, *parameters.values()]
    grads = torch.autograd.grad(values, leaves, seeds, materialize_grads=True)
    return [each.detach().double() for each in (*values, *grads)]


def assert_agrees(cell, lengths, hidden, dtype, reverse, seed=0):
    expected = scan_results(eager.scan, cell, lengths, hidden, torch.float64, reverse, seed)
    found = scan_results(compiled_scan, cell, lengths, hidden, dtype, reverse, seed)
    torch.testing.assert_close(found, expected, **TOLERANCE[dtype])


# Not sorted where a PackedSequence would be: the longest first. More rows than a tile has; one row
# that is much longer than the others; rows that all end at once.
LENGTHS = [[1], [4, 4, 1], [3] * 5, [70, 2, 1], sorted([1 + i * 7 % 20 for i in range(70)])[::-1]]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda each: f"{len(each)}x{max(each)}")
def test_the_engine_agrees_with_eager(cell, lengths, reverse):
    for dtype, hidden in ((torch.float32, 7), (torch.float64, 20)):
        assert_agrees(cell, lengths, hidden, dtype, reverse)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_with_eager(seed):
    cell = fastcell.parse(random_text(seed, size=14))
    assert_agrees(cell, [6, 6, 3, 1], 5, torch.float64, bool(seed % 2), seed)


@pytest.mark.parametrize("reverse", [False, True])
def test_threads_share_the_rows(reverse):
    threads = torch.get_num_threads()
    try:
        for count in (2, 3, 7):
            torch.set_num_threads(count)
            assert_agrees(library.lstm, [9, 8, 5, 5, 2], 6, torch.float64, reverse)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_operator_obeys_torchs_rules(reverse):
    cell = library.adding_dag
    x, states = torch.randn(6, 3, requires_grad=True), [torch.randn(3, 3) for _ in cell.states]
    parameters = [
        torch.randn(shape, requires_grad=True) for shape in cell.parameters(3, 3).values()
    ]
    args = (x, states, parameters, cell.text, True, torch.tensor([3, 2, 1]), reverse, reverse)
    torch.library.opcheck(torch.ops.fastcell.scan, args)


@pytest.mark.parametrize(
    ("batch_sizes", "message"),
    [
        (
            [3.0, 2.0, 1.0],
            "batch_sizes: expected (T,), torch.int64 on cpu; found (3,), torch.float",
        ),
        ([[3, 3]], "batch_sizes: expected (T,), torch.int64 on cpu; found (1, 2)"),
        ([3, 2], "x: expected (N, I) with N = 5, the sum of batch_sizes; found (6, 4)"),
        ([1, 2, 3], "rows[0]: found 1, expected B"),
        ([3, 1, 2], "rows: found 2, expected 1 or more, falling"),
        ([3, 3, 0], "rows: found 0, expected 1 or more, falling"),
    ],
)
def test_batch_sizes_that_do_not_fit(batch_sizes, message):
    cell = library.rnn
    parameters = {name: torch.zeros(size) for name, size in cell.parameters(4, 5).items()}
    args = (cell, torch.zeros(6, 4), (torch.zeros(3, 5),), parameters, torch.tensor(batch_sizes))
    with pytest.raises(ValueError, match=re.escape(message)):
        compiled_scan(*args)


# Recurrent


def alone(module, x, lengths, state):
    """Each row by itself: output padded with zeros, and the final states; batch in axis 1."""
    outputs, finals = [], []
    for row, length in enumerate(lengths):
        own = tuple(each[:, row : row + 1] for each in state)
        output, final = module(x[:length, row : row + 1], own if len(own) > 1 else own[0])
        outputs.append(torch.nn.functional.pad(output, (0, 0, 0, 0, 0, len(x) - length)))
        finals.append(final if isinstance(final, tuple) else (final,))
    return torch.cat(outputs, 1), [torch.cat(each, 1) for each in zip(*finals, strict=True)]


@pytest.mark.parametrize("batch_first", [False, True])
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    name=st.sampled_from(["gru", "lstm", "adding_dag"]),
    both=st.booleans(),
)
def test_lengths_are_as_each_row_alone_and_padding_is_never_read(lengths, name, both, batch_first):
    torch.manual_seed(0)
    cell, batch, steps = CELLS[name], len(lengths), 7
    layers = 1 if cell.uses_input_elementwise else 2
    module = Recurrent(cell, 4, 4, layers, bidirectional=both, batch_first=batch_first,
                       dtype=torch.float64)  # fmt: skip
    plain = Recurrent(cell, 4, 4, layers, bidirectional=both, dtype=torch.float64)
    plain.load_state_dict(module.state_dict())
    past = torch.arange(steps).unsqueeze(1) >= torch.tensor(lengths)
    x = torch.randn(steps, batch, 4, dtype=torch.float64).masked_fill(past.unsqueeze(2), torch.nan)
    shape = (layers * (1 + both), batch, 4)
    state = tuple(torch.randn(shape, dtype=torch.float64) for _ in cell.states)

    def run(module, call):
        leaves = [each.clone().requires_grad_() for each in (x, *state)]
        output, finals = call(module, leaves[0], leaves[1:])
        values = [output, *(finals if isinstance(finals, tuple | list) else [finals])]
        torch.manual_seed(1)
        sum((each * torch.randn_like(each)).sum() for each in values).backward()
        return values, [each.grad for each in (*leaves, *module.parameters())]

    def ours(module, x, state):
        given = tuple(state) if len(state) > 1 else state[0]
        x = x.transpose(0, 1) if batch_first else x
        output, finals = module(x, given, lengths=lengths)
        return output.transpose(0, 1) if batch_first else output, finals

    expected = run(plain, lambda module, x, state: alone(module, x, lengths, state))
    torch.testing.assert_close(run(module, ours), expected, **TOLERANCE[x.dtype])


@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_a_packed_sequence_gives_what_lengths_give(cell, enforce_sorted):
    lengths = torch.tensor([4, 3, 1] if enforce_sorted else [3, 4, 1])
    module, x = Recurrent(cell, 4, 4), torch.randn(4, 3, 4)
    packed, state = module(pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted))
    assert isinstance(packed, PackedSequence)
    expected = module(x, lengths=lengths)
    torch.testing.assert_close((pad_packed_sequence(packed)[0], state), expected)


def test_lengths_under_vmap_and_twice_differentiated():
    module = Recurrent(library.gru, 3, 4, backend="eager", dtype=torch.float64)
    x, lengths = torch.randn(2, 4, 3, 3, dtype=torch.float64), torch.tensor([3, 4, 1])
    run = torch.func.vmap(lambda each: module(each, lengths=lengths)[0])
    torch.testing.assert_close(run(x), torch.stack([module(e, lengths=lengths)[0] for e in x]))
    inputs = x[0].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: module(x, lengths=lengths)[0], inputs)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 3], "lengths: expected (2,), whole numbers, one a row; found (3,), torch.int64"),
        ([1.0, 2.0], "lengths: expected (2,), whole numbers, one a row; found (2,), torch.float32"),
        ([0, 2], "lengths: expected 1 to T = 5; found 0 to 2"),
        ([6, 2], "lengths: expected 1 to T = 5; found 2 to 6"),
    ],
)
def test_lengths_that_do_not_fit(lengths, message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        Recurrent(library.gru, 3, 4)(torch.zeros(5, 2, 3), lengths=lengths)


def test_lengths_where_they_have_no_place():
    module = Recurrent(library.gru, 3, 4)
    with pytest.raises(ShapeError, match="lengths: expected None for an unbatched x"):
        module(torch.zeros(5, 3), lengths=[5])
    packed = pack_padded_sequence(torch.zeros(5, 2, 3), [5, 2])
    with pytest.raises(ShapeError, match="lengths: expected None, since a PackedSequence has"):
        module(packed, lengths=[5, 2])


# torch.nn's modules


@pytest.mark.parametrize(
    "case", [each for each in options() if not each[1]["batch_first"]], ids=label
)
def test_packed_sequences_are_as_torchs(case):
    mode, chosen = case
    for dtype, lengths in ((torch.float64, [2, 5, 1, 5]), (torch.float32, [3, 2])):
        theirs, ours = pair(mode, dtype, **chosen)
        x = torch.randn(max(lengths), len(lengths), SIZES[0], dtype=dtype)
        is_sorted = lengths == sorted(lengths, reverse=True)
        pack = lambda x: pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)  # noqa: E731, B023
        for state in (states_for(theirs, len(lengths)), ()):
            expected, actual = (results(each, (x, pack), state) for each in (theirs, ours))
            torch.testing.assert_close(actual[1:], expected[1:], **TOLERANCE[dtype])
            for a, b in zip(tensors_of(actual[0]), tensors_of(expected[0]), strict=True):
                torch.testing.assert_close(a, b, **TOLERANCE[dtype])


@pytest.mark.parametrize("mode", MODES)
def test_packed_misuse_raises_what_torch_raises(mode):
    theirs, ours = pair(mode, torch.float32)
    batch_sizes = torch.tensor([2, 1])
    packed = PackedSequence(torch.zeros(3, SIZES[0]), batch_sizes)
    wrong = torch.zeros(1, 3, SIZES[1])
    for args in (
        (PackedSequence(torch.zeros(3, SIZES[0] + 1), batch_sizes),),
        (PackedSequence(torch.zeros(3, 1, SIZES[0]), batch_sizes),),
        (PackedSequence(torch.zeros(3, SIZES[0]).double(), batch_sizes),),
        (packed, (wrong, wrong) if mode == "LSTM" else wrong),
    ):
        with pytest.raises(Exception) as expected:  # noqa: PT011
            theirs(*args)
        with pytest.raises(expected.type, match=r"expected .*found"):
            ours(*args)
