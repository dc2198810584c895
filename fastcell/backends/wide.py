"""Products side by side: linears share wide buffers, a slot each, and so share products.

Forward, a source times the weights of all linears that read it is one product; backward, the
gradients of all linears lie side by side, for one product towards each source and one outer
product, over all the rows of a chunk, towards each weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .. import _C
from ..program import Product
from .bytecode import NOWHERE, Place, padded

if TYPE_CHECKING:
    from .encode import Encoder


class WideLinears:
    """The linears of a forward Program: those with a part before the loop, and the others."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.out = encoder, encoder.out
        program = encoder.program
        self.slots: dict[int, Place] = {}
        self.started: set[int] = set()
        self.emitted: set[Product] = set()
        self.buffers: set[int] = set()
        order = list(dict.fromkeys(i for p in program.products for i in p.linears))
        early = [i for i in order if not program.before.isdisjoint(encoder.nodes[i].args)]
        late = [i for i in order if i not in early]
        self.biases: dict[int, int] = {}
        for kind, group in (("CHUNK", early), ("TILE", late)):
            if group:
                self._add(kind, group)

    def _add(self, kind: str, group: Sequence[int]) -> None:
        """A wide buffer with a slot for each, and its row of biases."""
        width = self.encoder.slot_width
        buffer = self.out.buffer(kind, width * len(group))
        self.buffers.add(buffer)
        bias = self.biases[buffer] = self.out.buffer("ROW", width * len(group), 1)
        for slot, index in enumerate(group):
            self.slots[index] = Place(buffer, slot * width)
            node = self.encoder.nodes[index]
            if node.bias:
                source = Place(self.out.tensor("parameter", f"{node.param}.bias"))
                at = (Place(bias), source, Place(0, 0), Place(0, slot * width))
                self.out.emit("SETUP", "pack", *at, width=self.encoder.hidden, extra=(1, 0))

    def hoist(self) -> None:
        """Emits the products with what is there before the loop; theirs is the first summand."""
        for product in self.encoder.program.products:
            if product.source in self.encoder.program.before:
                self._product(product, "PRE")

    def compute(self, index: int) -> None:
        """Emits the products that the linear still lacks, for all linears that share them."""
        for product in self.encoder.program.products:
            if index in product.linears and product not in self.emitted:
                self._product(product, "LOOP")
        self.encoder.places[index] = self.slots[index]

    def _product(self, product: Product, section: str) -> None:
        self.emitted.add(product)
        source = self.encoder.rows(product.source, section)
        for run in self._runs(product.linears):
            linears = [product.linears[i] for i in run]
            positions = [product.positions[i] for i in run]
            self._gemm(section, source, product.source, linears, positions)

    def _runs(self, linears: Sequence[int]) -> list[list[int]]:
        """Neighbours in one buffer that are all fresh, or all begun."""
        result: list[list[int]] = []
        for position, index in enumerate(linears):
            previous = linears[position - 1] if position else None
            if previous is not None and self._joins(previous, index):
                result[-1].append(position)
            else:
                result.append([position])
        return result

    def _joins(self, left: int, right: int) -> bool:
        a, b = self.slots[left], self.slots[right]
        beside = a.buffer == b.buffer and b.column == a.column + self.encoder.slot_width
        return beside and (left in self.started) == (right in self.started)

    def _gemm(
        self, section: str, source: Place, node: int, linears: list[int], positions: list[int]
    ) -> None:
        encoder, stride = self.encoder, self.encoder.slot_width
        rows, dst = encoder.width(node), self.slots[linears[0]]
        weight = Place(self.out.buffer("WEIGHT", stride * len(linears), rows))
        for slot, (linear, position) in enumerate(zip(linears, positions, strict=True)):
            param = str(encoder.nodes[linear].param)
            tensor = Place(self.out.tensor("parameter", f"{param}.weight"))
            column = sum(encoder.program.widths[param][:position])
            at = (weight, tensor, Place(0, column), Place(0, slot * stride))
            self.out.emit("SETUP", "pack", *at, width=encoder.hidden, extra=(rows, 1))
        fresh = linears[0] not in self.started
        self.started.update(linears)
        bias = Place(self.biases[dst.buffer], dst.column) if fresh else NOWHERE
        mode = _C.GEMM_MODES["BIAS" if fresh else "ADD"]
        width = stride * len(linears)
        self.out.emit(section, "gemm", dst, source, weight, bias, width=width, extra=(mode, 0))


def runs(slots: Iterable[int], joined: bool) -> list[list[int]]:
    """Positions of `slots`, cut into runs of neighbours: 4 5 7 -> [0, 1] [2]."""
    result: list[list[int]] = []
    previous = None
    for position, slot in enumerate(slots):
        if joined and previous is not None and slot == previous + 1:
            result[-1].append(position)
        else:
            result.append([position])
        previous = slot
    return result


class WideGradients:
    """The gradients of the linears of a backward Program, side by side for a whole chunk."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.out = encoder, encoder.out
        program = encoder.program
        weights = [item for item in program.sums if item.source is not None]
        inputs = {i for i, node in enumerate(encoder.nodes) if node.param == program.input_name}
        reads_input = {item.node for item in weights if item.source in inputs}
        nodes = dict.fromkeys(item.node for item in weights)
        order = sorted(nodes, key=lambda node: node not in reads_input)
        self.slots = {node: slot for slot, node in enumerate(order)}
        self.width = encoder.slot_width * len(order)
        self.buffer = self.out.buffer("CHUNK", self.width) if order else -1

    def place(self, node: int) -> Place:
        return Place(self.buffer, self.slots[node] * self.encoder.slot_width)

    def pull(self, index: int, dst: Place, section: str, mode: str) -> None:
        """dst (+)= the gradients through the weights; neighbours make one long product."""
        encoder = self.encoder
        node = encoder.nodes[index]
        pairs = sorted(zip(node.args, node.blocks, strict=False), key=lambda p: self.slots[p[0]])
        joined = encoder.hidden == encoder.slot_width
        for run in runs([self.slots[gradient] for gradient, _ in pairs], joined):
            rows, width = encoder.hidden * len(run), encoder.width(index)
            weight = Place(self.out.buffer("WEIGHT", padded(width), rows))
            for number, position in enumerate(run):
                _, (param, source) = pairs[position]
                tensor = Place(self.out.tensor("parameter", f"{param}.weight"))
                column = sum(encoder.program.widths[param][:source])
                at = (weight, tensor, Place(0, column), Place(number * encoder.hidden, 0))
                self.out.emit("SETUP", "pack", *at, width=width, extra=(encoder.hidden, 0))
            a = self.place(pairs[run[0]][0])
            extra = (_C.GEMM_MODES[mode], 0)
            self.out.emit(section, "gemm", dst, a, weight, width=padded(width), extra=extra)
            mode = "ADD"

    def finish(self) -> None:
        """The weights' gradients: outer products over a chunk."""
        for source in dict.fromkeys(item.source for item in self.encoder.program.sums):
            if source is not None:
                self._outer(source)

    def _outer(self, source: int) -> None:
        encoder, stride = self.encoder, self.encoder.slot_width
        items = [item for item in encoder.program.sums if item.source == source]
        at = encoder.rows(source, "POST")
        by_slot = sorted({self.slots[item.node] for item in items})
        for run in runs(by_slot, joined=True):
            first, width = by_slot[run[0]], encoder.width(source)
            grad = self.out.buffer("GRAD", width, stride * len(run))
            a = Place(self.buffer, first * stride)
            extra = (stride * len(run), 0)
            self.out.emit("POST", "outer", Place(grad), a, at, width=width, extra=extra)
            slots = {by_slot[i] for i in run}
            for item in items:
                slot = self.slots[item.node]
                if slot in slots:
                    linear = item.param.removesuffix(".weight")
                    column = sum(encoder.program.widths[linear][: item.position])
                    self._unpack(item.param, grad, (slot - first) * stride, column, width)

    def _unpack(
        self, param: str, grad: int, row: int, column: int, width: int, rows: int | None = None
    ) -> None:
        """A block of a sum goes to its gradient tensor."""
        tensor = Place(self.out.tensor("gradient", param))
        extra = (self.encoder.hidden if rows is None else rows, 0)
        at = (tensor, Place(grad), Place(0, column), Place(row, 0))
        self.out.emit("FINISH", "unpack", *at, width=width, extra=extra)

    def sum_rows(self, index: int, section: str) -> None:
        """The gradients of biases, vectors and scalars, whose node this is: its rows' sum."""
        for item in self.encoder.program.sums:
            if item.node == index and item.source is None:
                when = "POST" if index in self.slots else section
                grad, hidden = self.out.buffer("GRAD", self.encoder.hidden, 1), self.encoder.hidden
                value = self.encoder.place(index)
                self.out.emit(when, "sumrows", Place(grad), value, width=hidden)
                self._unpack(item.param, grad, 0, 0, hidden, rows=1)
