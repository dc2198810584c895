"""What generated kernels call: the functions of `ops` that Triton lacks, and three ways to read.

All are over float32 values; none overflows to NaN, however large its argument.
"""

import triton
import triton.language as tl


@triton.jit
def sigmoid(a):
    decay = tl.exp(-tl.abs(a))
    return tl.where(a >= 0, 1.0, decay) / (1 + decay)


@triton.jit
def tanh(a):
    """Within 1.2e-7 of tanh(a)."""
    decay = tl.exp(-2 * tl.abs(a))
    size = (1 - decay) / (1 + decay)
    return tl.where(a >= 0, size, -size)


@triton.jit
def softsign(a):
    """a / (1 + |a|); beyond 1e38, where that is inf / inf, the sign."""
    a = tl.where(a > 1e38, 1e38, tl.where(a < -1e38, -1e38, a))
    return a / (1 + tl.abs(a))


@triton.jit
def relu(a):
    return tl.where(a <= 0, 0.0, a)


@triton.jit
def sign(a):
    return tl.where(a > 0, 1.0, tl.where(a < 0, -1.0, a))


@triton.jit
def load(pointers, inside):
    """Values as float32, zeros outside."""
    return tl.load(pointers, inside, 0.0).to(tl.float32)


@triton.jit
def dot(a, weight, PRECISION: tl.constexpr):
    """a @ weight in float32, of factors in the weight's dtype."""
    return tl.dot(a.to(weight.dtype), weight, input_precision=PRECISION)


@triton.jit
def dot_real(real, a, weight, PRECISION: tl.constexpr):
    """`dot` of the real columns of a: what is in the others may be NaN."""
    return dot(tl.where(real, a, 0.0), weight, PRECISION)


@triton.jit
def row_mean(real, a, H: tl.constexpr):
    """The mean of the H real columns, in every column."""
    mean = tl.sum(tl.where(real, a, 0.0), 1, keep_dims=True) / H
    return tl.broadcast_to(mean, a.shape)
