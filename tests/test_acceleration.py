"""`fastcell.accelerate`: the same model, with the same weights, computing the same."""

import copy
import dataclasses

import pytest
import torch
from conftest import TOLERANCE
from torch import nn
from torch_pairs import label, options, tensors_of

import fastcell


class Twice(nn.LSTM):
    """A class of its own: it computes something else."""

    def forward(self, x):
        return super().forward(2 * x)


class Tagger(nn.Module):
    """Recurrent modules at several depths, one of them in two places."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.encoder = nn.Sequential(nn.LSTM(5, 4, bidirectional=True))
        self.decoder = nn.ModuleDict({"gru": nn.GRU(8, 4), "rnn": nn.RNN(4, 4)})
        self.again = self.decoder["rnn"]
        self.twice = Twice(4, 4)
        self.cell = nn.LSTMCell(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, words):
        x, _ = self.encoder(self.embed(words))
        x, _ = self.decoder["gru"](x)
        x, _ = self.again(self.decoder["rnn"](x)[0])
        x, _ = self.twice(x)
        return self.head(self.cell(x[-1])[0])


def test_a_model_computes_the_same_with_the_same_parameters():
    torch.manual_seed(0)
    model, words = Tagger(), torch.randint(7, (6, 2))
    expected, parameters = model(words), dict(model.named_parameters())
    expected.square().sum().backward()
    gradients = {name: each.grad for name, each in parameters.items()}
    model.zero_grad()
    modules = dict(model.named_modules())
    report = fastcell.accelerate(model)
    assert dict(model.named_modules()) == modules
    assert all(each is parameters[name] for name, each in model.named_parameters())
    actual = model(words)
    torch.testing.assert_close(actual, expected, **TOLERANCE[actual.dtype])
    actual.square().sum().backward()
    actual = {name: each.grad for name, each in model.named_parameters()}
    torch.testing.assert_close(actual, gradients, **TOLERANCE[torch.float32])
    assert type(model.encoder[0]) is fastcell.nn.LSTM
    assert type(model.again) is fastcell.nn.RNN
    assert str(report).splitlines() == [
        "encoder.0: LSTM(5, 4, bidirectional=True), now fastcell's",
        "decoder.gru: GRU(8, 4), now fastcell's",
        "decoder.rnn: RNN(4, 4), now fastcell's",
        "twice: left as it is, Twice is a class of its own, and may compute something else",
        "cell: left as it is, a cell runs a single step, at which torch is faster",
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.left = {}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("case", list(options()), ids=label)
def test_every_layer_is_swapped_whatever_its_options(case):
    mode, chosen = case
    torch.manual_seed(0)
    module = getattr(nn, mode.split()[0])(5, 4, **chosen).eval()
    x = torch.randn(3, 2, 5)
    expected, printed = module(x), str(module)
    report = fastcell.accelerate(module)
    assert report.swapped == {"(model)": printed}
    assert not report.left
    for other in (module, copy.deepcopy(module)):
        torch.testing.assert_close(tensors_of(other(x)), tensors_of(expected), **TOLERANCE[x.dtype])


def test_hooks_stay():
    module, calls = nn.GRU(5, 4), []
    module.register_forward_hook(lambda *_: calls.append("forward"))
    fastcell.accelerate(module)
    module(torch.zeros(3, 2, 5))
    assert calls == ["forward"]


def test_an_optimizer_goes_on():
    model = nn.LSTM(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    fastcell.accelerate(model)
    before = model.weight_hh_l0.clone()
    model(torch.randn(3, 2, 5))[0].sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight_hh_l0, before)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.LSTM(5, 4, dtype=torch.bfloat16), "its weights are torch.bfloat16, and the"),
        (lambda: fastcell.nn.GRU(5, 4), "it is fastcell's already"),
        (lambda: fastcell.nn.GRUCell(5, 4), "a cell runs a single step"),
        (
            lambda: nn.utils.parametrizations.weight_norm(nn.RNN(5, 4), "weight_hh_l0"),
            "ParametrizedRNN is a class of its own",
        ),
    ],
)
def test_what_is_left_and_why(make, reason):
    module = make()
    kind = type(module)
    report = fastcell.accelerate(module)
    assert type(module) is kind
    assert not report.swapped
    assert report.left["(model)"].startswith(reason)


def test_a_model_with_nothing_to_swap():
    assert str(fastcell.accelerate(nn.Linear(2, 3))) == "no recurrent modules"
