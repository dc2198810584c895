"""The products over all T * B rows at once, before and after the loop, by torch.

They take in what reads x alone, the gradient of x, and every parameter's gradient: sums in an order
that does not depend on how programs are scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from ...program import Program, Sum
from .plan import Argument, Block, Plan

Tensors = Mapping[Argument, Tensor]


def project(plan: Plan, x: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """`projected` (T, B, n H): x W_x + b of each linear that reads x, side by side."""
    weights, biases = [], []
    for index in plan.projected:
        node = plan.nodes[index]
        blocks = [Block(str(node.param), at) for at, a in enumerate(node.args) if plan.is_input(a)]
        parts = [columns(plan.program, parameters, block) for block in blocks]
        weights.append(torch.stack(parts).sum(0) if len(parts) > 1 else parts[0])
        bias = parameters[f"{node.param}.bias"] if node.bias else None
        biases.append(x.new_zeros(plan.program.hidden_size) if bias is None else bias)
    return linear(x, torch.cat(weights), torch.cat(biases))


def pack(plan: Plan, parameters: Mapping[str, Tensor]) -> Tensor:
    """`weights` (m, H, H): block k is what row vectors are multiplied with from the right."""
    blocks = [columns(plan.program, parameters, block) for block in plan.blocks]
    return torch.stack(blocks if plan.program.reverse else [block.T for block in blocks])


def columns(program: Program, parameters: Mapping[str, Tensor], block: Block) -> Tensor:
    """The columns of a weight that belong to one source."""
    widths = program.widths[block.param]
    first = sum(widths[: block.position])
    weight = parameters[f"{block.param}.weight"]
    return weight[:, first : first + widths[block.position]]


def add_input_gradient(plan: Plan, tensors: Tensors, parameters: Mapping[str, Tensor]) -> None:
    """grad.x (T, B, I) += gates W_x: what the loop leaves of the gradient of x."""
    hidden = plan.program.hidden_size
    for name, index in plan.program.writes:
        if index not in plan.program.after:
            continue
        total = tensors[Argument("sequence", name)].flatten(0, 1)
        if plan.base(index) is None:
            total.zero_()
        pulls = dict[int, Tensor]()
        for block, gate in plan.inner(index):
            slot, weight = plan.gates.index(gate), columns(plan.program, parameters, block)
            pulls[slot] = pulls[slot] + weight if slot in pulls else weight
        for run in _runs(sorted(pulls)):
            gates = _slots(tensors[Argument("gates")], run, hidden)
            total.addmm_(gates.flatten(0, 1), torch.cat([pulls[slot] for slot in run]))


def parameter_gradients(
    plan: Plan, tensors: Tensors, parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The gradient of each parameter, summed over all rows; zeros where nothing depends on it."""
    gradients = {name: p.new_zeros(p.shape) for name, p in parameters.items()}
    sums = plan.program.sums
    plain = [item for item in sums if item.source is None]
    if plain:
        totals = tensors[Argument("gates")].sum((0, 1)).view(len(plan.gates), -1)
        for item in plain:
            total = totals[plan.gates.index(item.node)]
            gradients[item.param].copy_(total if gradients[item.param].dim() else total.sum())
    for source in dict.fromkeys(item.source for item in sums if item.source is not None):
        items = [item for item in sums if item.source == source]
        _weight_gradients(plan, tensors, parameters, items, gradients)
    return gradients


def _weight_gradients(
    plan: Plan,
    tensors: Tensors,
    parameters: Mapping[str, Tensor],
    items: Sequence[Sum],
    gradients: Mapping[str, Tensor],
) -> None:
    """gates^T source, for all the weights that read one source; neighbours in one product."""
    hidden, source = plan.program.hidden_size, items[0].source
    assert source is not None
    for run in _runs(sorted({plan.gates.index(item.node) for item in items})):
        gates = _slots(tensors[Argument("gates")], run, hidden)
        product = _outer(plan, tensors, parameters, gates, source)
        for item in items:
            slot = plan.gates.index(item.node)
            if slot in run:
                block = Block(item.param.removesuffix(".weight"), item.position)
                rows = product[(slot - run[0]) * hidden :][:hidden]
                columns(plan.program, gradients, block).copy_(rows)


def _outer(
    plan: Plan,
    tensors: Tensors,
    parameters: Mapping[str, Tensor],
    gates: Tensor,
    source: int,
) -> Tensor:
    """gates^T (k, T * B) times a source (T * B, .), wherever that is."""
    node, hidden = plan.nodes[source], plan.program.hidden_size
    if source in plan.sources:
        slot = plan.sources.index(source)
        return _over_rows(gates, _slots(tensors[Argument("sources")], [slot], hidden))
    if node.op != "read":
        value = gates.new_tensor(node.value) if node.op == "const" else parameters[str(node.param)]
        return torch.outer(gates.sum((0, 1)), value.expand(hidden))
    sequence = tensors[Argument("sequence", str(node.param))]
    if not node.value:
        return _over_rows(gates, sequence)
    initial = tensors[Argument("initial", str(node.param))]
    return _over_rows(gates[:1], initial[None]) + _over_rows(gates[1:], sequence[:-1])


def _over_rows(left: Tensor, right: Tensor) -> Tensor:
    return left.flatten(0, 1).T @ right.flatten(0, 1)


def _slots(wide: Tensor, run: Sequence[int], hidden: int) -> Tensor:
    """Neighbouring slots of a wide sequence."""
    return wide[..., run[0] * hidden : (run[-1] + 1) * hidden]


def _runs(slots: Sequence[int]) -> list[list[int]]:
    """Cut into neighbours: 4 5 7 -> [4, 5] [7]."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][-1] + 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs
