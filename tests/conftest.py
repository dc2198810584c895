"""What the tests share: tolerances, the cells, golden copies, and GPU tests need a GPU."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from fastcell import _C
from fastcell.library import CELLS

TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-12},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
}
"""The one table: how far a result may be from the same sum taken in another order."""

GOLDEN = Path(__file__).parent / "golden"

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: its kernels run on the CPU

settings.register_profile("fastcell", deadline=None, derandomize=True)
settings.load_profile("fastcell")


def pytest_addoption(parser):
    parser.addoption("--refresh-golden", action="store_true", help="rewrite the golden copies")


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(params=CELLS.values(), ids=CELLS)
def cell(request):
    """Each cell of the library in turn."""
    return request.param


@pytest.fixture
def golden(request):
    """golden(name, text) compares a text with the copy in tests/golden."""

    def compare(name, text):
        path = GOLDEN / name
        if request.config.getoption("--refresh-golden"):
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text()

    return compare


@pytest.fixture(params=_C.isas())
def isa(request, monkeypatch):
    """The test runs on every instruction set there is."""
    monkeypatch.setenv("FASTCELL_ISA", request.param)
    return request.param
