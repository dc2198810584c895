"""The Triton engine as a `Scan` with a derivative, on whatever device Triton runs on."""

import torch

from fastcell.backends.triton import engine


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cell, names, x, *rest):
        count = len(cell.states)
        states, parameters = rest[:count], dict(zip(names, rest[count:], strict=True))
        output, finals, saved = engine.forward(cell, x, states, parameters, save=True)
        ctx.cell, ctx.states, ctx.parameters = cell, states, parameters
        ctx.x, ctx.output, ctx.saved = x, output, saved
        return output, *finals

    @staticmethod
    def backward(ctx, *gradients):
        x_gradient, states, parameters = engine.backward(
            ctx.cell,
            ctx.x,
            ctx.states,
            ctx.parameters,
            ctx.output,
            ctx.saved,
            gradients,
            input_gradient=True,
        )
        return None, None, x_gradient, *states, *parameters


def scan(cell, x, states, parameters):
    """(output (T, B, H), finals S of (B, H)), with all gradients."""
    output, *finals = _Scan.apply(cell, tuple(parameters), x, *states, *parameters.values())
    return output, tuple(finals)
