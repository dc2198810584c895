"""`Recurrent` against torch.nn's modules, and as a module among others."""

import copy
import itertools
import pickle

import pytest
import torch
from conftest import TOLERANCE
from torch import nn
from torch.func import functional_call

import fastcell
from fastcell import Recurrent, library

GATES = {
    "rnn": {"g": 0},
    "lstm": {"i": 0, "f": 1, "g": 2, "o": 3},
    "gru": {"r": 0, "z": 1},
}
"""Which block of torch's stacked weights is which `linear` of (x, h)."""

KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
TORCH = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def as_ours(theirs, read, join_biases):
    """Torch's stacked tensors under our names; `read` takes the weights or their gradients."""
    named = {}
    suffixes = ["", "_reverse"] if theirs.bidirectional else [""]
    for index, place in enumerate(itertools.product(range(theirs.num_layers), suffixes)):
        w_x, w_h, b_x, b_h = (blocks_of(theirs, read, kind, *place) for kind in KINDS)
        for gate, block in GATES[theirs.mode.partition("_")[0].lower()].items():
            named[f"layers.{index}.{gate}.weight"] = torch.cat([w_x[block], w_h[block]], dim=1)
            if theirs.bias:
                named[f"layers.{index}.{gate}.bias"] = join_biases(b_x[block], b_h[block])
        if theirs.mode == "GRU":
            named |= {f"layers.{index}.n_x.weight": w_x[2], f"layers.{index}.n_h.weight": w_h[2]}
            if theirs.bias:
                named |= {f"layers.{index}.n_x.bias": b_x[2], f"layers.{index}.n_h.bias": b_h[2]}
    return named


def blocks_of(theirs, read, kind, layer, suffix):
    """One stacked tensor as its blocks of H rows; no blocks for a bias that is not there."""
    if "bias" in kind and not theirs.bias:
        return ()
    return read(getattr(theirs, f"{kind}_l{layer}{suffix}")).split(theirs.hidden_size)


def make_pair(name, inputs, hidden, dtype=torch.float64, **options):
    """Our module and torch's with the same weights."""
    torch.manual_seed(0)
    theirs = TORCH[name](inputs, hidden, dtype=dtype, **options)
    ours = Recurrent(
        getattr(library, name), inputs, hidden, dtype=dtype, backend="eager", **options
    )
    ours.load_state_dict(as_ours(theirs, torch.Tensor.detach, torch.add))
    return ours, theirs


def initial_state(name, layers, hidden, batch, dtype):
    shape = (layers, hidden) if batch is None else (layers, batch, hidden)
    states = tuple(torch.randn(shape, dtype=dtype) for _ in getattr(library, name).states)
    return states if len(states) > 1 else states[0]


def as_tuple(state):
    return (state,) if isinstance(state, torch.Tensor) else state


def run_with_gradients(module, x, state):
    """Outputs, final states, and the gradient of a random sum of all of them."""
    leaves = [each.clone().requires_grad_() for each in (x, *as_tuple(state))]
    given = tuple(leaves[1:]) if isinstance(state, tuple) else leaves[1]
    output, final = module(leaves[0], given)
    results = [output, *as_tuple(final)]
    torch.manual_seed(1)
    sum((each * torch.randn_like(each)).sum() for each in results).backward()
    return results, [leaf.grad for leaf in leaves]


OPTIONS = [
    {"num_layers": layers, "bidirectional": both, "batch_first": first, "bias": bias}
    for layers, both, first, bias in itertools.product((1, 2), *[(False, True)] * 3)
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("name", TORCH)
def test_equals_torch(name, options):
    layers = options["num_layers"] * (1 + options["bidirectional"])
    for dtype, (batch, time, hidden) in itertools.product(
        TOLERANCE, [(1, 1, 1), (5, 2, 7), (None, 7, 33)]
    ):
        ours, theirs = make_pair(name, hidden + 2, hidden, dtype, **options)
        shape = (time, hidden + 2) if batch is None else (time, batch, hidden + 2)
        x = torch.randn(shape, dtype=dtype)
        x = x.transpose(0, 1) if batch and options["batch_first"] else x
        state = initial_state(name, layers, hidden, batch, dtype)
        actual = run_with_gradients(ours, x, state)
        expected = run_with_gradients(theirs, x, state)
        torch.testing.assert_close(actual, expected, **TOLERANCE[dtype])
        # Torch's two biases are added: the gradient of each is that of the sum.
        expected = as_ours(theirs, lambda each: each.grad, lambda b_x, b_h: b_x)
        actual = {name: each.grad for name, each in ours.named_parameters()}
        torch.testing.assert_close(actual, expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("name", TORCH)
def test_state_is_zero_unless_given(name):
    ours, theirs = make_pair(name, 3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), **TOLERANCE[x.dtype])


@pytest.mark.parametrize("batch_first", [False, True])
def test_strides_of_input_and_state_do_not_matter(batch_first):
    ours, _ = make_pair("lstm", 3, 4, batch_first=batch_first)
    x = torch.randn(5, 5, 6, dtype=torch.float64)
    state = tuple(torch.randn(1, 4, 5, dtype=torch.float64).transpose(1, 2) for _ in range(2))
    expected = ours(x[..., ::2].contiguous(), tuple(each.contiguous() for each in state))
    torch.testing.assert_close(ours(x[..., ::2], state), expected)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"batch_first": True}])
def test_empty_sequence_and_empty_batch(options):
    module = Recurrent(library.lstm, 3, 4, **options)
    directions = module.directions
    for time, batch in ((0, 2), (2, 0), (0, 0)):
        shape = (batch, time) if module.batch_first else (time, batch)
        output, (h, c) = module(torch.zeros(*shape, 3))
        assert output.shape == (*shape, 4 * directions)
        assert h.shape == c.shape == (directions, batch, 4)
    state = (torch.randn(directions, 2, 4), torch.randn(directions, 2, 4))
    shape = (2, 0, 3) if module.batch_first else (0, 2, 3)
    torch.testing.assert_close(module(torch.zeros(shape), state)[1], state, rtol=0, atol=0)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("batch", [None, 1, 7])
def test_steps_make_the_sequence(cell, batch, batch_first):
    module = Recurrent(cell, 5, 5, num_layers=2, batch_first=batch_first)
    x = torch.randn(6, 5) if batch is None else torch.randn(6, batch, 5)
    sequence = x.transpose(0, 1) if batch and batch_first else x
    expected, last = module(sequence)
    state, outputs = None, []
    for x_now in x:
        output, state = module.step(x_now, state)
        outputs.append(output)
    actual = torch.stack(outputs, dim=1 if batch and batch_first else 0)
    torch.testing.assert_close(actual, expected, **TOLERANCE[x.dtype])
    torch.testing.assert_close(state, last, **TOLERANCE[x.dtype])


def test_the_backward_direction_reads_the_sequence_from_its_end(cell):
    both = Recurrent(cell, 4, 4, bidirectional=True)
    one = Recurrent(cell, 4, 4)
    one.layers[0].load_state_dict(both.layers[1].state_dict())
    x = torch.randn(3, 2, 4)
    output, state = both(x)
    expected, last = one(x.flip(0))
    torch.testing.assert_close(output[..., 4:], expected.flip(0))
    for final, each in zip(as_tuple(state), as_tuple(last), strict=True):
        torch.testing.assert_close(final[1:], each)


def test_every_parameter_has_a_gradient(cell):
    module = Recurrent(cell, 4, 4, num_layers=2)
    output, state = module(torch.randn(3, 2, 4))
    (output.sum() + sum(each.square().sum() for each in as_tuple(state))).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


def test_dropout_acts_between_layers_in_training_only():
    torch.manual_seed(0)
    module = Recurrent(library.gru, 3, 4, num_layers=2, dropout=1.0)
    plain = Recurrent(library.gru, 3, 4, num_layers=2)
    plain.load_state_dict(module.state_dict())
    x = torch.randn(5, 2, 3)
    dropped, _ = module(x)
    assert not torch.allclose(dropped, plain(x)[0])
    cut = Recurrent(library.gru, 4, 4)
    cut.layers[0].load_state_dict(module.layers[1].state_dict())
    torch.testing.assert_close(dropped, cut(torch.zeros(5, 2, 4))[0])
    torch.testing.assert_close(module.eval()(x), plain(x))


def test_dropout_without_a_second_layer_warns():
    with pytest.warns(UserWarning, match=r"dropout=0.5 has no effect with num_layers=1"):
        Recurrent(library.gru, 3, 4, dropout=0.5)


# Parameters


def test_names_and_shapes_are_the_cells(cell):
    module = Recurrent(cell, 4, 4, num_layers=2)
    shapes = {name: tuple(each.shape) for name, each in module.state_dict().items()}
    own = cell.parameters(4, 4)
    expected = {f"layers.{k}.{name}": own[name] for k in range(2) for name in own}
    assert shapes == expected


def test_parameters_start_as_those_of_nn_linear(cell):
    torch.manual_seed(0)
    hidden = 64
    module = Recurrent(cell, hidden, hidden)
    initial = {node.param: node.value for node in cell.nodes if node.op in ("scalar", "vector")}
    for name, parameter in module.layers[0].named_parameters():
        if name in initial:
            assert (parameter == initial[name]).all()
            continue
        linear = getattr(module.layers[0], name.partition(".")[0])
        bound = linear.in_features**-0.5
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.8 * bound
        assert parameter.mean().abs() < 0.3 * bound


def test_reset_parameters_draws_afresh():
    module = Recurrent(library.lswm, 4, 4)
    before = copy.deepcopy(module.state_dict())
    nn.init.zeros_(module.layers[0].alpha)
    torch.manual_seed(5)
    module.reset_parameters()
    assert module.layers[0].alpha == 2
    assert not torch.equal(module.layers[0].f.weight, before["layers.0.f.weight"])
    torch.manual_seed(5)
    expected = Recurrent(library.lswm, 4, 4).state_dict()
    torch.testing.assert_close(module.state_dict(), expected, rtol=0, atol=0)


def test_without_bias_no_linear_has_one(cell):
    module = Recurrent(cell, 4, 4, bias=False)
    assert not any(name.endswith("bias") for name in module.state_dict())
    assert module(torch.randn(2, 3, 4))[0].shape == (2, 3, 4)


AWKWARD = """
def awkward(x, h):
    {} = linear(x, h)
    {} = scalar(0.5)
    return {} * {} + h
"""
NAMES = ["forward", "type", "half", "train", "f", "to", "weight", "bias", "tensors", "layers",
         "training", "_parameters", "__init__", "cell", "extra_repr"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_parameter_name_works(name):
    for linear, scalar in ((name, "a"), ("a", name), (name, f"{name}_"), (f"{name}_", name)):
        cell = fastcell.parse(AWKWARD.format(linear, scalar, scalar, linear))
        module = Recurrent(cell, 3, 4).double().train().requires_grad_().to("cpu")
        tensors = dict(module.named_parameters())
        assert len(tensors) == 3
        x = torch.randn(2, 3, 3, dtype=torch.float64)
        expected, _ = module(x)
        assert torch.equal(functional_call(module, tensors, (x,))[0], expected)
        other = Recurrent(cell, 3, 4, dtype=torch.float64)
        other.load_state_dict(module.state_dict())
        assert torch.equal(pickle.loads(pickle.dumps(other))(x)[0], expected)


# A module among modules


def test_copies_compute_the_same(cell, tmp_path):
    module = Recurrent(cell, 4, 4, num_layers=2)
    x = torch.randn(3, 2, 4)
    expected, _ = module(x)
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    loaded = Recurrent(cell, 4, 4, num_layers=2)
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert other.cell == cell
        assert torch.equal(other(x)[0], expected)


def test_functional_call_and_grad():
    module = Recurrent(library.lswm, 3, 3, backend="eager")
    x = torch.randn(5, 2, 3)
    tensors = {name: each.detach() + 0.1 for name, each in module.named_parameters()}

    def loss(tensors):
        return functional_call(module, tensors, (x,))[0].square().sum()

    actual = torch.func.grad(loss)(tensors)
    module.load_state_dict(tensors)
    module(x)[0].square().sum().backward()
    expected = {name: each.grad for name, each in module.named_parameters()}
    torch.testing.assert_close(actual, expected, **TOLERANCE[x.dtype])


def test_vmap_over_stacked_modules():
    modules = [Recurrent(library.adding_dag, 3, 3, backend="eager") for _ in range(4)]
    tensors, _ = torch.func.stack_module_state(modules)
    x = torch.randn(5, 2, 3)
    run = torch.func.vmap(lambda tensors: functional_call(modules[0], tensors, (x,))[0])
    expected = torch.stack([module(x)[0] for module in modules])
    torch.testing.assert_close(run(tensors), expected, **TOLERANCE[x.dtype])


def test_meta_device(cell):
    module = Recurrent(cell, 4, 4, num_layers=2, batch_first=True, device="meta")
    assert all(each.is_meta for each in module.parameters())
    output, state = module(torch.empty(3, 5, 4, device="meta"))
    assert output.is_meta
    assert output.shape == (3, 5, 4)
    assert all(each.shape == (2, 3, 4) for each in as_tuple(state))
    module.to_empty(device="cpu").reset_parameters()
    assert module(torch.zeros(3, 5, 4))[0].isfinite().all()


def test_dtype_and_conversion(cell):
    x = torch.randn(3, 2, 4)
    module = Recurrent(cell, 4, 4, dtype=torch.float64)
    assert module(x.double())[0].dtype == torch.float64
    assert module.to(torch.float32)(x)[0].dtype == torch.float32


def test_weight_norm_trains_its_own_parameters():
    module = Recurrent(library.lstm, 3, 4)
    expected, _ = module(x := torch.randn(5, 2, 3))
    nn.utils.parametrizations.weight_norm(module.layers[0].g)
    actual, _ = module(x)
    torch.testing.assert_close(actual, expected, **TOLERANCE[x.dtype])
    actual.sum().backward()
    assert module.layers[0].g.parametrizations.weight.original0.grad is not None


def test_autocast_mixes_dtypes():
    module = Recurrent(library.lstm, 3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = module(torch.randn(5, 2, 3, dtype=torch.bfloat16))
    assert output.isfinite().all()


def test_repr_shows_what_differs_from_the_default():
    module = Recurrent(library.lstm, 3, 4)
    assert module.extra_repr() == "lstm, 3, 4"
    module = Recurrent(library.gru, 3, 4, 2, bias=False, batch_first=True, dropout=0.5,
                       bidirectional=True, backend="eager")  # fmt: skip
    assert module.extra_repr() == (
        "gru, 3, 4, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True,"
        " backend=eager"
    )


@pytest.mark.gpu
def test_gpu_equals_cpu(cell):
    module = Recurrent(cell, 4, 4, num_layers=2, dtype=torch.float64)
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    expected, _ = module(x)
    actual, _ = module.cuda()(x.cuda())
    torch.testing.assert_close(actual.cpu(), expected, **TOLERANCE[x.dtype])
