"""A linear map of the input, folded into the cell: the same numbers from narrower products.

    W [P u + p; h]  =  [W_x P' | W_h] [u'; h],    W = [W_x | W_h],  P' = [P | p],  u' = [u; 1]

The folded cell reads u' (C + 1 features) where the cell reads x = P u + p (I features). A weight is
folded once a call rather than once a step; where x is used elementwise, it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from .ir import Cell
from .node import Builder, Node, prune


@lru_cache(maxsize=512)
def fold(cell: Cell) -> Cell:
    """The cell of u': its linears read u' itself, and all else reads `projected = linear(u')`."""
    builder, moved = Builder(), list[int]()
    for node in cell.sources:
        moved.append(builder.add(node))
    name = _projection(cell)
    projected = builder.add(Node("linear", (0,), name=name, param=name))
    for node in cell.nodes[len(moved) :]:
        x = 0 if node.op == "linear" else projected
        args = tuple(moved[arg] if arg else x for arg in node.args)
        moved.append(builder.add(replace(node, args=args)))
    outputs = [moved[output] if output else projected for output in cell.outputs]
    nodes, pruned = prune(builder.nodes, len(cell.sources), outputs)
    return Cell(cell.name, nodes, pruned)


def fold_parameters(
    cell: Cell, projection: nn.Linear, parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The folded cell's parameters, from the cell's and P (I, C), p (I,); differentiable.

    Each linear's weight (H, .) has C + 1 columns for every I columns of x.
    """
    matrix = torch.cat([projection.weight, projection.bias.unsqueeze(1)], dim=1)
    readers = _readers(cell)
    folded = {**parameters, f"{_projection(cell)}.weight": matrix}
    if readers:
        weights = [parameters[name] for name in readers]
        products = cast(Any, _MultiplyBlocks).apply(matrix, tuple(readers.values()), *weights)
        folded |= dict(zip(readers, products, strict=True))
    return {name: folded[name] for name in _parameter_names(fold(cell))}


@lru_cache(maxsize=512)
def _readers(cell: Cell) -> dict[str, tuple[bool, ...]]:
    """The weight of each linear that reads x, and which of its sources are x."""
    return {
        f"{node.param}.weight": tuple(arg == 0 for arg in node.args)
        for node in cell.nodes
        if node.op == "linear" and 0 in node.args
    }


@lru_cache(maxsize=512)
def _parameter_names(cell: Cell) -> tuple[str, ...]:
    return tuple(cell.parameters(1, 1))


class _MultiplyBlocks(torch.autograd.Function):
    """Weights (H, .) with every block for x, (H, I), times the matrix: one product for all.

    The weights fold in thirty small torch operations, which take longer than the products.
    """

    @staticmethod
    def forward(
        ctx: Any, matrix: Tensor, is_x: Sequence[Sequence[bool]], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        blocks, products = _multiply_blocks(weights, is_x, matrix)
        ctx.is_x = is_x
        ctx.save_for_backward(matrix, blocks)
        return products

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        matrix, blocks = ctx.saved_tensors
        narrow, wide = _multiply_blocks(gradients, ctx.is_x, matrix.T)
        return blocks.T @ narrow, None, *wide


def _multiply_blocks(
    weights: Sequence[Tensor], is_x: Sequence[Sequence[bool]], matrix: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All blocks for x, one below the other; and the weights with each times the matrix."""
    hidden_size = weights[0].shape[0]
    parts = [
        weight.split([matrix.shape[0] if x else hidden_size for x in flags], dim=1)
        for weight, flags in zip(weights, is_x, strict=True)
    ]
    pairs = [list(zip(flags, row, strict=True)) for flags, row in zip(is_x, parts, strict=True)]
    blocks = torch.cat([block for row in pairs for x, block in row if x])
    products = iter((blocks @ matrix).split(hidden_size))
    return blocks, tuple(
        torch.cat([next(products) if x else block for x, block in row], dim=1) for row in pairs
    )


def _projection(cell: Cell) -> str:
    """A name that the cell has not."""
    taken = {name for node in cell.nodes for name in (node.name, node.param)}
    name = "projected"
    while name in taken:
        name += "_"
    return name
