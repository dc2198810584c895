"""The cell: one step of a recurrent network as a frozen graph, with no device, dtype or size.

Glossary, the same in Python and C++:

    B  batch        I  input size             L  number of `linear` nodes
    T  time         H  hidden size            S  number of states

A sequence is (B, T, .) with `batch_first=True`, (T, B, .) otherwise; a state is (B, H).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from .canonical import canonical_key
from .errors import LanguageError, ShapeError
from .node import PARAMETERS, Builder, Node, prune
from .ops import FUNCTIONS, UNARY
from .text import write_dot, write_latex, write_text
from .torch_source import write_torch


@dataclass(frozen=True)
class Cell:
    """States' = f(x, states): nodes in topological order, the input first, then the states.

    `outputs` holds the node of each new state, in the order of the states; the first is the
    output. Two cells are equal when their text is; `key` looks past names and writing order.
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    @property
    def sources(self) -> tuple[Node, ...]:
        """The input and the S states."""
        return self.nodes[: 1 + len(self.outputs)]

    @property
    def states(self) -> tuple[Node, ...]:
        """The S previous states."""
        return self.nodes[1 : 1 + len(self.outputs)]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Once for each cell: every call of an engine looks its kernels up by the cell.
        return hash((self.name, self.nodes, self.outputs))

    @cached_property
    def key(self) -> str:
        """128 bits in hex, equal exactly when cells are: up to names, and order in + and *.

        Source: canonical form by refinement and individualisation, hashed with BLAKE2b.
        """
        return canonical_key(self.nodes, self.outputs)

    def parameters(self, input_size: int, hidden_size: int) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every learnable parameter, in order of the nodes.

        `linear` w has w.weight (H, sum of its sources' widths) and w.bias (H,); `scalar` is (),
        `vector` (H,). Raises ShapeError when the sizes do not fit the cell.
        """
        self.check_sizes(input_size, hidden_size)
        shapes: dict[str, tuple[int, ...]] = {}
        for node in self.nodes:
            if node.op == "linear":
                widths = self.source_widths(node, input_size, hidden_size)
                shapes[f"{node.param}.weight"] = (hidden_size, sum(widths))
                if node.bias:
                    shapes[f"{node.param}.bias"] = (hidden_size,)
            elif node.op in PARAMETERS:
                shapes[str(node.param)] = (hidden_size,) if node.op == "vector" else ()
        return shapes

    def source_widths(self, node: Node, input_size: int, hidden_size: int) -> list[int]:
        """The width of each source of a `linear` node: I for the input itself, else H."""
        return [input_size if arg == 0 else hidden_size for arg in node.args]

    def parameter_count(self, input_size: int, hidden_size: int) -> int:
        """How many numbers are learned; only what reaches an output is counted."""
        return sum(prod(shape) for shape in self.parameters(input_size, hidden_size).values())

    @cached_property
    def uses_input_elementwise(self) -> bool:
        """Whether x is used outside a `linear`, which ties its width to H."""
        inside = (0 in node.args for node in self.nodes if node.op != "linear")
        return any(inside) or 0 in self.outputs

    def check_sizes(self, input_size: int, hidden_size: int) -> None:
        """Raises ShapeError unless both are positive whole numbers that the cell can take."""
        for label, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int) or size < 1:
                raise ShapeError(f"{label}: expected a whole number >= 1, found {size!r}")
        if self.uses_input_elementwise and input_size != hidden_size:
            raise ShapeError(
                f"cell '{self.name}' uses {self.nodes[0].name} elementwise, so input_size must"
                f" equal hidden_size; found {input_size} and {hidden_size}: project the input"
                f" first, for instance with nn.Linear({input_size}, {hidden_size})"
            )

    def replace(self, **names: str) -> Cell:
        """The cell with unary ops swapped by name: replace(sigmoid="softsign_scaled").

        Raises LanguageError when either name is no unary op of the language.
        """
        known = UNARY.keys() & FUNCTIONS
        for name in (*names, *names.values()):
            if name not in known:
                found, expected = f"'{name}' in replace", f"one of {', '.join(sorted(known))}"
                raise LanguageError(1, 1, found, expected)
        builder, moved = Builder(), list[int]()
        for node in self.nodes:
            args = tuple(moved[arg] for arg in node.args)
            moved.append(builder.add(replace(node, op=names.get(node.op, node.op), args=args)))
        outputs = [moved[output] for output in self.outputs]
        nodes, pruned = prune(builder.nodes, len(self.sources), outputs)
        return Cell(self.name, nodes, pruned)

    def without_bias(self) -> Cell:
        """The cell whose linears have no bias."""
        return replace(self, nodes=tuple(replace(node, bias=False) for node in self.nodes))

    @cached_property
    def text(self) -> str:
        """The cell in the language; `fastcell.parse` gives the cell back."""
        return write_text(self)

    def __str__(self) -> str:
        return self.text

    def to_latex(self) -> str:
        """The equations, as a LaTeX `aligned` block."""
        return write_latex(self)

    def to_dot(self) -> str:
        """The graph, as Graphviz text."""
        return write_dot(self)

    def to_torch(self) -> str:
        """A Python file with the cell as a torch.nn.Module that needs torch only.

        Its class takes (input_size, hidden_size, num_layers=1), the weights of a `Recurrent` of one
        direction, and (x (T, B, I), state) as that does; T >= 1. It loops over time in Python,
        and exports to ONNX for a fixed T and any B.
        """
        return write_torch(self)
