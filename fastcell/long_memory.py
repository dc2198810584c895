"""The long working memory of LSWM: every step of a sequence, seen through all of its steps.

    H_long = H (H^T H) / sqrt(d),    H (T, d)

Both orders of the product give the same numbers. H (H^T H) takes 2 T d^2 multiplications and
(H H^T) H takes 2 T^2 d: whichever of d and T is smaller decides.

The pooled form is y = softsign(sum_t H_long[t]). With 1 a column of T ones, the sum over time is

    1^T H_long  =  1^T H (H^T H) / sqrt(d)  =  ((m H^T) H) / sqrt(d),    m = 1^T H = sum_t H[t],

because matrix products associate. Read from the left it is a sum over time and two products of a
row with H: 3 T d operations, and T + d numbers kept. Neither H_long nor H^T H is made. The gradient
needs no more. With v = m H^T, g the gradient of (m H^T) H, and u = g H^T, it is

    dH  =  v^T g  +  u^T m  +  1 (u H),

a product of (T, 3) and (3, d). And y = softsign(a / s) = a / (s + |a|) has slope (1 - |y|)^2 / s.

Source: the "second stage" of a softsign gated network. The example in its text, [[1, 2], [2, 3]],
has the same sums over rows and columns; its code sums over time.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function

from .errors import ShapeError


def long_working_memory(h: Tensor) -> Tensor:
    """H (H^T H) / sqrt(d), in the cheaper order: h (..., T, d) to (..., T, d)."""
    time, size = h.shape[-2:]
    product = h @ (h.mT @ h) if size <= time else (h @ h.mT) @ h
    return cast(Tensor, product / size**0.5)


def pooled_long_working_memory(h: Tensor) -> Tensor:
    """softsign(sum_t H_long[t]) in O(T d) time and memory: h (..., T, d) to (..., d)."""
    return cast(Tensor, cast(Any, _Pooled).apply(h))


class _Pooled(Function):
    """The pooled form and its gradient, as the module derives them.

    Backward redoes two passes over H rather than keep their results, so that it can be derived.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor) -> Tensor:
        total = h.sum(-2, keepdim=True)
        product = ((total @ h.mT) @ h).squeeze(-2)
        return cast(Tensor, product / (h.shape[-1] ** 0.5 + product.abs()))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        h, y = ctx.saved_tensors
        g = (gradient * (1 - y.abs()).square() / h.shape[-1] ** 0.5).unsqueeze(-2)
        m = h.sum(-2, keepdim=True)
        vu = torch.cat([m, g], dim=-2) @ h.mT
        u = vu[..., 1:, :]
        left = torch.cat([vu, torch.ones_like(u)], dim=-2)
        return left.mT @ torch.cat([g, m, u @ h], dim=-2)


class LongWorkingMemory(nn.Module):
    """Every step seen through all steps, or pooled, their sum squashed.

        H_long = H (H^T H) / sqrt(d),        pooled: softsign(sum_t H_long[t])

    Called as (h), the outputs of a recurrent layer:

        h       (T, B, d), (B, T, d) with batch_first, or unbatched (T, d)
        returns the shape of h; pooled (B, d), unbatched (d,)

    It has no parameters. Pooled, it takes O(T d) time and memory. Raises ShapeError for any other
    shape. Source: see the module's docstring.
    """

    def __init__(self, pooled: bool = False, batch_first: bool = False) -> None:
        super().__init__()
        self.pooled = pooled
        self.batch_first = batch_first

    def forward(self, h: Tensor) -> Tensor:
        """h as the class gives it to what each step recalls, or to what all recall together."""
        if not isinstance(h, Tensor) or h.dim() not in (2, 3):
            layout = "(B, T, d)" if self.batch_first else "(T, B, d)"
            found = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
            raise ShapeError(f"h: expected {layout} or unbatched (T, d); found {found}")
        time = 0 if h.dim() == 3 and not self.batch_first else -2
        sequence = h.movedim(time, -2)
        if self.pooled:
            return pooled_long_working_memory(sequence)
        return long_working_memory(sequence).movedim(-2, time)

    def extra_repr(self) -> str:
        """The options."""
        return f"pooled={self.pooled}, batch_first={self.batch_first}"
