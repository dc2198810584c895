"""The library: what each cell has, beside what its paper says. Values are in test_eager."""

import pytest

from fastcell import library
from fastcell.library import CELLS

FEATURES = {
    # name: states, `linear`s, scalars, vectors, x elementwise
    "rnn": (1, 1, 0, 0, False),
    "lstm": (2, 4, 0, 0, False),
    "gru": (1, 4, 0, 0, False),
    "peephole_lstm": (2, 4, 0, 3, False),
    "layernorm_lstm": (2, 4, 0, 10, False),
    "mgu": (1, 2, 0, 0, False),
    "adding_dag": (2, 4, 0, 0, True),
    "lswm": (1, 4, 1, 0, True),
    "lswm_cec": (1, 4, 0, 0, True),
}


def test_all_of_them_are_here():
    assert CELLS.keys() == FEATURES.keys()
    for name, cell in CELLS.items():
        assert cell.name == name
        assert getattr(library, name) is cell


@pytest.mark.parametrize("name", FEATURES)
def test_features(name):
    cell = CELLS[name]
    ops = [node.op for node in cell.nodes]
    counts = [ops.count(op) for op in ("linear", "scalar", "vector")]
    assert (len(cell.states), *counts, cell.uses_input_elementwise) == FEATURES[name]


def test_no_two_are_the_same_cell():
    assert len({cell.key for cell in CELLS.values()}) == len(CELLS)


def test_the_memory_cells_have_no_exponential():
    for cell in (library.lswm, library.lswm_cec):
        assert not {"sigmoid", "tanh", "exp"} & {node.op for node in cell.nodes}
