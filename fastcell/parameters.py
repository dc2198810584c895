"""The learnable numbers of one run of a cell, held as a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .ir import Cell
from .node import Node


class CellParameters(nn.Module):
    """The parameters of one layer and direction: nn.Linear per `linear`, Parameter per the rest."""

    def __init__(
        self,
        cell: Cell,
        input_size: int,
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._learnable = [(node, _attribute(node)) for node in cell.nodes if node.param]
        self._places = [
            place for node, attribute in self._learnable for place in _places(node, attribute)
        ]
        for node, attribute in self._learnable:
            if node.op == "linear":
                width = sum(cell.source_widths(node, input_size, hidden_size))
                linear = nn.Linear(width, hidden_size, node.bias, device, dtype)
                self.add_module(attribute, linear)
            else:
                shape = (hidden_size,) if node.op == "vector" else ()
                start = torch.full(shape, _start(node), device=device, dtype=dtype)
                self.register_parameter(attribute, nn.Parameter(start))

    def reset_parameters(self) -> None:
        """Weights and biases uniform within 1 / sqrt(fan in), the rest at its initial value."""
        for node, attribute in self._learnable:
            held = getattr(self, attribute)
            if node.op == "linear":
                held.reset_parameters()
            else:
                nn.init.constant_(held, _start(node))

    @property
    def dtype(self) -> torch.dtype | None:
        """That of the parameters, None if there are none."""
        return next(iter(self.tensors().values())).dtype if self._places else None

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter by its name in the cell: "g.weight", "g.bias", "alpha"."""
        modules: dict[Any, Any] = self._modules
        try:  # straight from where nn.Module keeps them, for the sake of single steps
            return {
                name: modules.get(module, self)._parameters[attribute]
                for name, module, attribute in self._places
            }
        except KeyError:  # a parametrisation keeps its own elsewhere
            return {
                name: getattr(modules.get(module, self), attribute)
                for name, module, attribute in self._places
            }


def _places(node: Node, attribute: str) -> list[tuple[str, str | None, str]]:
    """Of each of the node's parameters the name in the cell, the module and the attribute there."""
    if node.op != "linear":
        return [(str(node.param), None, attribute)]
    held = ("weight", "bias") if node.bias else ("weight",)
    return [(f"{node.param}.{name}", attribute, name) for name in held]


def _start(node: Node) -> float:
    assert node.value is not None
    return node.value


_TAKEN = frozenset(dir(nn.Module())) | {
    "tensors",
    "reset_parameters",
    "dtype",
    "_learnable",
    "_places",
}


def _attribute(node: Node) -> str:
    """The parameter's attribute: its name, with one underscore more if nn.Module has that name.

    A name that is such a name and underscores takes one too, so that no two names become one.
    """
    name = str(node.param)
    trimmed = (name[:length] for length in range(len(name.rstrip("_")), len(name) + 1))
    return f"{name}_" if any(each in _TAKEN for each in trimmed) else name
