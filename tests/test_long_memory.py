"""The long working memory against its formula, spelled out in NumPy at float64."""

import time

import numpy as np
import pytest
import torch
from conftest import TOLERANCE
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from fastcell import ShapeError
from fastcell.long_memory import LongWorkingMemory, long_working_memory, pooled_long_working_memory

SHAPES = [(1, 1, 1), (1, 3, 7), (2, 1, 5), (48, 5, 7), (7, 2, 48), (91, 3, 91), (33, 1, 64)]
"""T, B, d: more time than features, and less."""


def formula(h):
    """H_long of h (T, d), as it is written."""
    return h @ (h.T @ h) / np.sqrt(h.shape[1])


def softsign(a):
    return a / (1 + np.abs(a))


def each(function, h):
    """The function of every sequence of h (T, B, d)."""
    return np.stack([function(h[:, b].double().numpy()) for b in range(h.shape[1])], axis=1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_sequence_and_pooled(shape, dtype):
    h = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1)) * 0.3
    expected = torch.from_numpy(each(formula, h)).to(dtype)
    torch.testing.assert_close(LongWorkingMemory()(h), expected, **TOLERANCE[dtype])
    pooled = torch.from_numpy(softsign(each(formula, h).sum(axis=0))).to(dtype)
    torch.testing.assert_close(LongWorkingMemory(pooled=True)(h), pooled, **TOLERANCE[dtype])


@pytest.mark.parametrize("pooled", [False, True])
def test_layouts(pooled):
    h = torch.randn(9, 4, 5)
    expected = LongWorkingMemory(pooled)(h)
    swapped = LongWorkingMemory(pooled, batch_first=True)(h.transpose(0, 1))
    alone = [LongWorkingMemory(pooled)(h[:, b]) for b in range(4)]
    tolerance = TOLERANCE[h.dtype]
    torch.testing.assert_close(
        swapped if pooled else swapped.transpose(0, 1), expected, **tolerance
    )
    torch.testing.assert_close(torch.stack(alone, dim=expected.dim() - 2), expected, **tolerance)


@pytest.mark.parametrize("shape", [(1, 1, 1), (6, 2, 3), (3, 2, 6)], ids=str)
@pytest.mark.parametrize("pooled", [False, True])
def test_derivatives(shape, pooled):
    h = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LongWorkingMemory(pooled), (h,))
    assert torch.autograd.gradgradcheck(LongWorkingMemory(pooled), (h,))


def test_vmap():
    h = torch.randn(4, 5, 3, dtype=torch.float64)
    gradient = torch.func.grad(lambda h: pooled_long_working_memory(h).square().sum())
    expected = torch.stack([gradient(each) for each in h])
    torch.testing.assert_close(torch.func.vmap(gradient)(h), expected, **TOLERANCE[h.dtype])


def multiplications(function, *inputs):
    """Of the products that the function takes, counted by torch."""
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    return counter.get_total_flops() // 2


@pytest.mark.parametrize(("length", "size"), [(100, 10), (10, 100), (40, 40)])
def test_the_cheaper_order_is_taken(length, size):
    least = 2 * length * size * min(length, size)
    assert multiplications(long_working_memory, torch.randn(length, size)) == least


class Largest(TorchDispatchMode):
    """The most numbers in one tensor that is made, views of what was given apart."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if not any(torch._C._is_alias_of(made, arg) for arg in args if torch.is_tensor(arg)):
            self.numbers = max(self.numbers, made.numel())
        return made


def test_pooled_takes_time_and_memory_of_one_pass():
    """Neither H_long, 2,000 numbers, nor H^T H, 1,600: a row of T = 50 or d = 40 at most."""
    h = torch.randn(50, 40)
    assert multiplications(pooled_long_working_memory, h) == 2 * 50 * 40
    with Largest() as largest:
        pooled_long_working_memory(h)
    assert largest.numbers == 50
    gradient = torch.func.grad(lambda h: pooled_long_working_memory(h).sum())
    assert (
        multiplications(gradient, h) == (2 + 3 + 3) * 50 * 40
    )  # forward, products with H, the last one


def direct(h):
    """As the source computes it: H_long is made, then summed."""
    product = h @ (h.mT @ h) / h.shape[-1] ** 0.5
    return torch.nn.functional.softsign(product.sum(-2))


def best_seconds(function, turns=7):
    function()
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.mark.slow  # not for its length: a busy machine's clock is no judge
@pytest.mark.parametrize("backward", [False, True])
def test_pooled_is_quick(backward):
    """At T = 4,096 and d = 128 at least 20 times as quick as the formula."""
    h = torch.tanh(torch.randn(1, 4096, 128)).requires_grad_(backward)

    def run(function):
        return torch.autograd.grad(function(h).sum(), h) if backward else function(h)

    seconds = [best_seconds(lambda f=f: run(f)) for f in (direct, pooled_long_working_memory)]
    assert seconds[0] > 20 * seconds[1]


def test_a_long_sequence_is_right():
    h = torch.randn(4096, 2, 128, generator=torch.Generator().manual_seed(3)) * 0.04
    expected = direct(h.double().transpose(0, 1)).float()
    actual = LongWorkingMemory(pooled=True)(h)
    assert 0.1 < expected.abs().mean() < 0.9  # far from where softsign hides errors
    torch.testing.assert_close(actual, expected, **TOLERANCE[h.dtype])


@pytest.mark.parametrize(
    ("given", "found"), [(torch.zeros(3), r"\(3,\)"), (torch.zeros(1, 1, 1, 1), "1, 1"), (3, "int")]
)
def test_shapes_are_checked(given, found):
    with pytest.raises(
        ShapeError, match=rf"h: expected \(T, B, d\) or unbatched.* found .*{found}"
    ):
        LongWorkingMemory()(given)


def test_repr():
    assert repr(LongWorkingMemory(True)) == "LongWorkingMemory(pooled=True, batch_first=False)"
