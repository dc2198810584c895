"""`fastcell.nn`'s LSTM, GRU, RNN and their cells against torch.nn's, over all their options."""

import copy
import inspect
import pickle

import pytest
import torch
from conftest import TOLERANCE
from torch import nn
from torch.func import functional_call
from torch_pairs import MODES, SIZES, label, options, pair, results, states_for

import fastcell.nn
from fastcell import FastcellError

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

GRID = pytest.mark.parametrize("case", list(options()), ids=label)
EACH = pytest.mark.parametrize("mode", MODES)
CELLS = {"LSTMCell": {}, "GRUCell": {}, "RNNCell": {}, "RNNCell relu": {"nonlinearity": "relu"}}


def assert_same(ours, theirs, x, state=()):
    actual, expected = (results(each, x, state) for each in (ours, theirs))
    torch.testing.assert_close(actual, expected, **TOLERANCE[theirs.weight_ih_l0.dtype])


@GRID
def test_results_and_gradients_are_torchs(case):
    mode, chosen = case
    for dtype, batch in ((torch.float64, 3), (torch.float32, 1), (torch.float64, None)):
        theirs, ours = pair(mode, dtype, **chosen)
        shape = (4,) if batch is None else (batch, 4) if chosen["batch_first"] else (4, batch)
        x = torch.randn(*shape, SIZES[0], dtype=dtype)
        assert_same(ours, theirs, x, states_for(theirs, batch))
        assert_same(ours, theirs, x)
        assert_same(ours.eval(), theirs.eval(), x)


@GRID
def test_a_checkpoint_loads_both_ways_and_all_else_is_alike(case):
    mode, chosen = case
    theirs, ours = pair(mode, **chosen)
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    for name in ("input_size", "hidden_size", "proj_size", "mode", *chosen):
        assert getattr(ours, name) == getattr(theirs, name)
    assert [len(each) for each in ours.all_weights] == [len(each) for each in theirs.all_weights]
    assert ours.flatten_parameters() is None
    torch.manual_seed(4)
    theirs.reset_parameters()
    torch.manual_seed(4)
    ours.reset_parameters()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)


@EACH
def test_a_seed_draws_the_same_weights(mode):
    torch.manual_seed(0)
    expected = getattr(nn, mode.split()[0])(3, 4, 2, **MODES[mode]).state_dict()
    torch.manual_seed(0)
    actual = getattr(fastcell.nn, mode.split()[0])(3, 4, 2, **MODES[mode]).state_dict()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_positional_arguments_come_in_torchs_order():
    for name, args in (("LSTM", ()), ("GRU", ()), ("RNN", ("relu",))):
        args = (3, 4, 2, *args, False, True, 0.25, True)
        assert repr(getattr(fastcell.nn, name)(*args)) == repr(getattr(nn, name)(*args))
    for name in ("LSTMCell", "GRUCell", "RNNCell"):
        ours, theirs = getattr(fastcell.nn, name), getattr(nn, name)
        assert inspect.signature(ours) == inspect.signature(theirs)


@EACH
@pytest.mark.parametrize("batch_first", [False, True])
def test_an_empty_batch_has_empty_results(mode, batch_first):
    _, ours = pair(mode, batch_first=batch_first, bidirectional=True)
    shape = (0, 3) if batch_first else (3, 0)
    output, state = ours(torch.zeros(*shape, SIZES[0], dtype=torch.float64))
    assert output.shape == (*shape, 2 * SIZES[1])
    for each in state if mode == "LSTM" else [state]:
        assert each.shape == (2, 0, SIZES[1])


@EACH
def test_strides_do_not_matter(mode):
    theirs, ours = pair(mode, batch_first=True)
    wide = torch.randn(3, 4, 2 * SIZES[0], dtype=torch.float64)
    for x in (
        wide[..., ::2],
        wide[:, :1, : SIZES[0]].expand(3, 4, SIZES[0]),
        wide[..., 5:].flip(1),
    ):
        torch.testing.assert_close(ours(x), theirs(x), **TOLERANCE[x.dtype])


# A module among modules


@EACH
def test_copies_compute_the_same(mode, tmp_path):
    _, ours = pair(mode, num_layers=2)
    x = torch.randn(3, 2, SIZES[0], dtype=torch.float64)
    torch.save(ours.state_dict(), tmp_path / "weights.pt")
    theirs, _ = pair(mode, num_layers=2, seed=1)
    theirs.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), theirs):
        torch.testing.assert_close(other(x), ours(x), **TOLERANCE[x.dtype])


@EACH
def test_weights_that_others_hold(mode):
    """Under functional_call, stacked under vmap, and with a parametrisation in their place."""
    theirs, ours = pair(mode)
    x = torch.randn(3, 2, SIZES[0], dtype=torch.float64)
    tensors = {name: each.detach() + 0.1 for name, each in theirs.named_parameters()}
    expected = functional_call(theirs, tensors, (x,))
    torch.testing.assert_close(functional_call(ours, tensors, (x,)), expected, **TOLERANCE[x.dtype])
    modules = [ours, pair(mode, seed=1)[1]]
    stacked, _ = torch.func.stack_module_state(modules)
    run = torch.func.vmap(lambda tensors: functional_call(ours, tensors, (x,))[0])
    expected = torch.stack([module(x)[0] for module in modules])
    torch.testing.assert_close(run(stacked), expected, **TOLERANCE[x.dtype])
    nn.utils.parametrizations.weight_norm(ours, "weight_hh_l0")
    torch.testing.assert_close(ours(x), theirs(x), **TOLERANCE[x.dtype])
    ours(x)[0].sum().backward()
    assert ours.parametrizations.weight_hh_l0.original0.grad is not None


@EACH
def test_frozen_weights_have_no_gradient_and_hooks_are_called(mode):
    theirs, ours = pair(mode)
    x = torch.randn(3, 2, SIZES[0], dtype=torch.float64, requires_grad=True)
    seen = []
    ours.register_forward_hook(lambda *_: seen.append("forward"))
    ours.register_full_backward_hook(lambda *_: seen.append("backward"))
    ours.requires_grad_(False).weight_hh_l0.requires_grad_()
    expected = torch.autograd.grad(theirs(x)[0].sum(), [x, theirs.weight_hh_l0])
    actual = torch.autograd.grad(ours(x)[0].sum(), [x, ours.weight_hh_l0])
    torch.testing.assert_close(actual, expected, **TOLERANCE[x.dtype])
    assert seen == ["forward", "backward"]
    assert ours.weight_ih_l0.grad is None


@EACH
def test_other_dtypes_and_devices(mode):
    theirs, ours = pair(mode, num_layers=2)
    x = torch.randn(3, 2, SIZES[0])
    torch.testing.assert_close(ours.float()(x), theirs.float()(x), **TOLERANCE[x.dtype])
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            output, _ = ours(x.to(dtype))
        torch.testing.assert_close(output.float(), theirs(x)[0], rtol=0.02, atol=0.02)
    output, _ = ours.to("meta")(x.to("meta"))
    assert output.is_meta
    assert output.shape == (3, 2, SIZES[1])


@EACH
def test_compile_and_export_have_no_graph_break(mode):
    theirs, ours = pair(mode, num_layers=2, bidirectional=True)
    x = torch.randn(3, 2, SIZES[0], dtype=torch.float64)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    assert_compiled = results(compiled, x, ()), results(ours, x, ())
    torch.testing.assert_close(assert_compiled[0][:2], assert_compiled[1][:2])
    exported = torch.export.export(ours, (x,)).module()
    torch.testing.assert_close(exported(x), theirs(x), **TOLERANCE[x.dtype])


# Misuse


@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        ((0, 4), {}),
        ((3, 0), {}),
        ((3.0, 4), {}),
        ((3, "4"), {}),
        ((3, 4, 0), {}),
        ((3, 4), {"dropout": 2}),
        ((3, 4), {"dropout": True}),
        ((3, 4), {"bias": 1}),
        ((3, 4), {"batch_first": None}),
        ((3, 4), {"proj_size": 4}),
        ((3, 4), {"proj_size": -1}),
        ((3, 4), {"colour": "red"}),
        ((3,), {}),
    ],
)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_bad_arguments_raise_what_torch_raises(name, args, chosen):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        getattr(nn, name)(*args, **chosen)
    with pytest.raises(expected.type):
        getattr(fastcell.nn, name)(*args, **chosen)


def test_an_unknown_nonlinearity():
    for module in (nn.RNN, fastcell.nn.RNN):
        with pytest.raises(ValueError, match="nonlinearity"):
            module(3, 4, nonlinearity="sine")


X = torch.zeros(3, 2, SIZES[0])
H = torch.zeros(1, 2, SIZES[1])
WRONG = {
    "one axis": (X[0, 0],),
    "four axes": (X[None],),
    "features": (X[..., 1:],),
    "dtype": (X.double(),),
    "state's batch": (X, H[:, :1]),
    "state's layers": (X, H.expand(2, -1, -1)),
    "state's width": (X, H[..., 1:]),
    "state's dtype": (X, H.double()),
    "an unbatched state": (X, H[:, 0]),
    "a batched state": (X[:, 0], H),
}


@pytest.mark.parametrize("args", WRONG.values(), ids=WRONG)
@EACH
def test_tensors_that_do_not_fit_raise_what_torch_raises(mode, args):
    theirs, ours = pair(mode, torch.float32)
    if mode == "LSTM":
        args = (args[0], *((each, each) for each in args[1:]))
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs(*args)
    with pytest.raises(expected.type, match=r"expected .*found") as actual:
        ours(*args)
    assert isinstance(actual.value, FastcellError)


def test_an_lstm_takes_two_states():
    theirs, ours = pair("LSTM", torch.float32, num_layers=2)
    h = H.expand(2, -1, -1)
    for state in (h, (h,) * 3):
        with pytest.raises(RuntimeError):
            theirs(X, state)
        with pytest.raises(RuntimeError, match=r"state: expected a tuple \(h, c\); found"):
            ours(X, state)


# Cells


def cells(name, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    kind = name.split()[0]
    chosen = CELLS[name] | chosen
    theirs = getattr(nn, kind)(*SIZES, dtype=dtype, **chosen)
    ours = getattr(fastcell.nn, kind)(*SIZES, dtype=dtype, **chosen)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("batch", [None, 0, 1, 7])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_a_cells_results_and_gradients_are_torchs(name, bias, batch):
    for dtype in TOLERANCE:
        theirs, ours = cells(name, dtype, bias=bias)
        assert repr(ours) == repr(theirs)
        assert isinstance(ours, type(theirs))
        shape = () if batch is None else (batch,)
        x = torch.randn(*shape, SIZES[0], dtype=dtype)
        h = torch.randn(*shape, SIZES[1], dtype=dtype)
        for state in (((h, h.flip(-1)) if name == "LSTMCell" else h), ()):
            expected, actual = (results(cell, x, state) for cell in (theirs, ours))
            torch.testing.assert_close(actual, expected, **TOLERANCE[dtype])
        with torch.no_grad():
            torch.testing.assert_close(ours(x), theirs(x), **TOLERANCE[dtype])


@pytest.mark.parametrize(
    "args",
    [
        (X,),
        (X[0, :, 1:],),
        (X[0].double(),),
        (X[0], H),
        (X[0], H[0, :1]),
        (X[0], H[0, :, 1:]),
        (X[0], H[0].double()),
    ],
    ids=lambda args: "-".join(str(tuple(each.shape)) for each in args),
)
@pytest.mark.parametrize("name", CELLS)
def test_a_cells_misuse_raises_what_torch_raises(name, args):
    theirs, ours = cells(name, torch.float32)
    if name == "LSTMCell":
        args = (args[0], *((each, each) for each in args[1:]))
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs(*args)
    with pytest.raises(expected.type, match=r"expected .*found"):
        ours(*args)
