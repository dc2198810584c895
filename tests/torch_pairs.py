"""Modules of torch.nn and ours in pairs, over all the options that torch has."""

import itertools

import torch
from torch import nn

import fastcell.nn

SIZES = 5, 4  # I, H
MODES = {"LSTM": {}, "GRU": {}, "RNN": {}, "RNN relu": {"nonlinearity": "relu"}}


def options():
    """(mode, options) for every combination: 120, a projection for the LSTM alone."""
    flags = [(False, True)] * 3
    for mode, layers, bias, first, both in itertools.product(MODES, (1, 3), *flags):
        chosen = {"num_layers": layers, "bias": bias, "batch_first": first, "bidirectional": both}
        for dropout in (0.0, 0.5) if layers > 1 else (0.0,):
            for projection in ({}, {"proj_size": 3}) if mode == "LSTM" else ({},):
                yield mode, MODES[mode] | chosen | {"dropout": dropout} | projection


def label(case):
    mode, chosen = case
    return "-".join([mode, *(f"{name}={value}" for name, value in chosen.items() if value)])


def pair(mode, dtype=torch.float64, seed=0, **chosen):
    """Torch's module and ours, which took its state_dict."""
    torch.manual_seed(seed)
    name = mode.split()[0]
    theirs = getattr(nn, name)(*SIZES, dtype=dtype, **chosen)
    ours = getattr(fastcell.nn, name)(*SIZES, dtype=dtype, **chosen)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def states_for(module, batch):
    """A random state of the module, for a batch or (None) unbatched."""
    layers = module.num_layers * (1 + module.bidirectional)
    batch = () if batch is None else (batch,)
    dtype = module.weight_ih_l0.dtype
    h = torch.randn(layers, *batch, module.proj_size or module.hidden_size, dtype=dtype)
    if module.mode != "LSTM":
        return h
    return h, torch.randn(layers, *batch, module.hidden_size, dtype=dtype)


def tensors_of(value):
    """All tensors of a nested result, a PackedSequence's as they lie."""
    if isinstance(value, nn.utils.rnn.PackedSequence):
        return [value.data, value.batch_sizes]
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in tensors_of(each)]


def results(module, x, state):
    """What the module returns, and the gradients of a random sum of it: x, states, weights.

    x is a tensor, or a function of a leaf that makes the module's input: (leaf, function).
    """
    leaf, prepare = x if isinstance(x, tuple) else (x, lambda each: each)
    leaf = leaf.clone().requires_grad_()
    given = [each.clone().requires_grad_() for each in tensors_of(state)]
    torch.manual_seed(2)  # for dropout
    args = (tuple(given) if isinstance(state, tuple) else given[0],) if given else ()
    returned = module(prepare(leaf), *args)
    torch.manual_seed(3)
    values = [each for each in tensors_of(returned) if each.is_floating_point()]
    module.zero_grad()
    sum((each * torch.randn_like(each)).sum() for each in values).backward()
    gradients = {name: each.grad for name, each in module.named_parameters()}
    return returned, [each.grad for each in (leaf, *given)], gradients
