"""A Program as bytecode: a place for every value, and the instructions in their order.

Where a value lives: what is read or written for a whole chunk of steps at once in a CHUNK buffer,
what is carried in a CARRY buffer, numbers and vectors in a ROW, everything else in a TILE that is
reused as soon as its value is dead. Linears lie side by side in wide buffers, a slot each, so that
one product fills several.
"""

from __future__ import annotations

from .. import _C
from ..node import Node
from ..program import Program
from .bytecode import NOWHERE, Bytecode, Place, Writer, padded
from .wide import WideGradients, WideLinears

_ROWS = frozenset({"const", "scalar", "vector"})


def encode(program: Program) -> Bytecode:
    """The Program's bytecode."""
    return Encoder(program).run()


class Encoder:
    """Walks the nodes once, giving each a place and its instructions."""

    def __init__(self, program: Program) -> None:
        self.program, self.nodes, self.hidden = program, program.nodes, program.hidden_size
        self.slot_width = padded(program.hidden_size)
        self.out = Writer()
        self.places: dict[int, Place] = {}
        self.free: list[int] = []
        self.last_use = self._last_uses()
        self.carried = {node: name for name, node in reversed(program.carries)}
        self.carry_buffers = self._carry_buffers()
        self.chunked = self._chunked()
        self.wide = WideGradients(self) if program.sums else None
        self.linears = WideLinears(self)

    def run(self) -> Bytecode:
        for index, node in enumerate(self.nodes):
            if node.op == "carry" and self._outlives_its_carry(index):
                self._copy_carry(index)
        self._nodes("PRE")
        self.linears.hoist()
        self._nodes("LOOP")
        self._nodes("POST")
        self._update_carries()
        if self.wide:
            self.wide.finish()
        return self.out.bytecode(self.program.reverse)

    def _chunked(self) -> set[int]:
        """What is read or written before or after the loop, for all steps of a chunk at once."""
        program = self.program
        summed = {item.source for item in program.sums if item.source is not None}
        reach = {arg for index in program.after for arg in self.nodes[index].args}
        return summed | program.before | program.after | reach

    # -- Places

    def section(self, index: int) -> str:
        """Chunked reads come before the loop too: all the steps of a chunk at once."""
        if index in self.program.after:
            return "POST"
        chunked_read = self.nodes[index].op == "read" and index in self.chunked
        return "PRE" if index in self.program.before or chunked_read else "LOOP"

    def width(self, index: int) -> int:
        """I for x and its gradient, H for everything else."""
        name = self.nodes[index].param if self.nodes[index].op == "read" else None
        is_input = name == self.program.input_name
        is_gradient = (f"grad.{self.program.input_name}", index) in self.program.writes
        return self.program.input_size if is_input or is_gradient else self.hidden

    def place(self, index: int) -> Place:
        """Where an operand is; parameter rows and numbers are made when first asked for."""
        if index not in self.places:
            assert self.nodes[index].op in _ROWS
            self.places[index] = Place(self._row(self.nodes[index]))
        return self.places[index]

    def _row(self, node: Node) -> int:
        if node.op == "const":
            tensor = self.out.tensor("constant", repr(node.value))
        else:
            tensor = self.out.tensor("parameter", str(node.param))
        columns = self.hidden if node.op == "vector" else 1
        return self.out.buffer("ROW", self.hidden, columns, tensor)

    def _last_uses(self) -> dict[int, int]:
        """Node -> the last node that reads it; one that the whole step needs, beyond the end."""
        last: dict[int, int] = {}
        for index, node in enumerate(self.nodes):
            last.update(dict.fromkeys(node.args, index))
        end = len(self.nodes)
        last.update({node: end for _, node in self.program.carries})
        return last

    def _carry_buffers(self) -> dict[str, int]:
        buffers = {}
        for name, _ in self.program.carries:
            first, last = self.out.tensor("initial", name), self.out.tensor("final", name)
            buffers[name] = self.out.buffer("CARRY", self.hidden, 0, first, last)
        return buffers

    def destination(self, index: int, alias: bool) -> Place:
        """A place for a new value; with `alias`, an operand that dies here may give its own."""
        if alias:
            self._release(index)
        place = self._choose(index, alias)
        if not alias:
            self._release(index)
        return place

    def _choose(self, index: int, alias: bool) -> Place:
        if self.wide and index in self.wide.slots:
            return self.wide.place(index)
        if index in self.chunked:
            return Place(self.out.buffer("CHUNK", self.width(index)))
        carry = self._own_carry(index, alias)
        if carry is not None:
            return Place(carry)
        return Place(self.free.pop() if self.free else self.out.buffer("TILE", self.hidden))

    def _release(self, index: int) -> None:
        """The tiles of the operands that this node is the last to read."""
        for arg in set(self.nodes[index].args):
            if self.last_use[arg] == index and self._is_tile(arg):
                self.free.append(self.places[arg].buffer)

    def _is_tile(self, index: int) -> bool:
        """Whether the value lies in a tile of its own."""
        buffer = self.places[index].buffer if index in self.places else -1
        shared = buffer < 0 or buffer in self.linears.buffers
        return not shared and self.out.buffers[buffer][0] == _C.KINDS["TILE"]

    def _own_carry(self, index: int, alias: bool) -> int | None:
        """The buffer of the carry that the node becomes, if its old value is done with."""
        if index not in self.carried:
            return None
        name = self.carried[index]
        for old, node in enumerate(self.nodes):
            if node.op == "carry" and node.param == name:
                last = self.last_use.get(old, -1)
                if last > index or (last == index and not alias):
                    return None
        return self.carry_buffers[name]

    # -- Nodes

    def _nodes(self, section: str) -> None:
        for index in range(len(self.nodes)):
            if self.section(index) == section:
                self._node(index, section)

    def _node(self, index: int, section: str) -> None:
        node = self.nodes[index]
        if node.op == "carry":
            self.places.setdefault(index, Place(self.carry_buffers[str(node.param)]))
            self._settle(index)
        elif node.op == "read":
            self._read(index, section)
        elif node.op == "linear":
            self.linears.compute(index)
            self._release(index)
        elif node.op == "pullback":
            self._pullback(index, section)
        elif node.op not in _ROWS:
            self._elementwise(index, section)
        self._write(index, section)
        if self.wide:
            self.wide.sum_rows(index, section)

    def _read(self, index: int, section: str) -> None:
        node = self.nodes[index]
        sequence = self.out.tensor("sequence", str(node.param))
        initial = self.out.tensor("initial", str(node.param)) if node.value else -1
        place = self.places[index] = self.destination(index, alias=True)
        shift = int(node.value or 0)
        source, first = Place(sequence), Place(initial)
        width = self.width(index)
        self.out.emit(section, "load", place, source, first, width=width, extra=(shift, 0))

    def _elementwise(self, index: int, section: str) -> None:
        node = self.nodes[index]
        operands = [self.place(arg) for arg in node.args]
        mixes = node.op == "row_mean"
        dst = self.places[index] = self.destination(index, alias=not mixes)
        op = "mean" if mixes else node.op
        self.out.emit(section, op, dst, *operands, width=self.width(index))

    def _pullback(self, index: int, section: str) -> None:
        """Products onto the base, which is copied unless the new value takes its place."""
        node = self.nodes[index]
        assert self.wide is not None
        count = len(node.blocks)
        mode = "SET"
        base = self.place(node.args[count]) if node.bias else NOWHERE
        if node.bias and self._may_take_over(index, node.args[count]):
            dst, mode = base, "ADD"
        else:
            dst = self.destination(index, alias=False)
            if node.bias:
                self.out.emit(section, "copy", dst, base, width=self.width(index))
                mode = "ADD"
        self.places[index] = dst
        self.wide.pull(index, dst, section, mode)

    def _may_take_over(self, index: int, base: int) -> bool:
        """Whether the sum can grow where its first summand lies."""
        free_to_choose = index not in self.chunked and not (self.wide and index in self.wide.slots)
        return free_to_choose and self.last_use[base] == index and self._is_tile(base)

    def _write(self, index: int, section: str) -> None:
        """Stores; a number or a vector becomes rows first."""
        for name, node in self.program.writes:
            if node == index:
                at = self.rows(index, section)
                tensor = Place(self.out.tensor("sequence", name))
                self.out.emit(section, "store", tensor, at, width=self.width(index))

    def rows(self, index: int, section: str) -> Place:
        """The value as rows of its own, for instructions that don't repeat a ROW."""
        place = self.place(index)
        if self.nodes[index].op not in _ROWS:
            return place
        kind = "TILE" if section == "LOOP" else "CHUNK"
        copy = Place(self.out.buffer(kind, self.hidden))
        self.out.emit(section, "copy", copy, place, width=self.hidden)
        return copy

    def _settle(self, index: int) -> None:
        """A carry that is needed after the loop, or is a linear's gradient: a copy of each step."""
        if index in self.chunked or (self.wide and index in self.wide.slots):
            carry = self.places[index]
            self.places[index] = self._choose(index, alias=True)
            self.out.emit("LOOP", "copy", self.places[index], carry, width=self.hidden)

    # -- Carries

    def _outlives_its_carry(self, index: int) -> bool:
        """Whether another carry becomes this one's old value: states that change places."""
        own = self.nodes[index].param
        return any(node == index and name != own for name, node in self.program.carries)

    def _copy_carry(self, index: int) -> None:
        carry = Place(self.carry_buffers[str(self.nodes[index].param)])
        self.places[index] = Place(self.out.buffer("TILE", self.hidden))
        self.out.emit("LOOP", "copy", self.places[index], carry, width=self.hidden)

    def _update_carries(self) -> None:
        for name, node in self.program.carries:
            carry, new = Place(self.carry_buffers[name]), self.place(node)
            unchanged = self.nodes[node].op == "carry" and self.nodes[node].param == name
            if new != carry and not unchanged:
                self.out.emit("LOOP", "copy", carry, new, width=self.hidden)
