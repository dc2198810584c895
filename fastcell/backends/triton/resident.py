"""The resident strategy: weights are loaded once, and one program runs every step of its rows.

A program takes ROWS rows of the batch; rows are independent, so programs never meet. States stay in
registers from the first step to the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from .body import Body
from .expression import Term
from .module import Storage, Tile, kernel_name, module, padded, signature
from .names import Names
from .plan import NUMBERS, Argument, Block, Plan


def write(plan: Plan, tile: Tile, storage: Storage) -> str:
    """The source of a module with the plan's kernel."""
    body = _Resident(plan, Names(plan))
    hidden, width = plan.program.hidden_size, padded(plan.program.hidden_size)
    way = "last step first" if plan.program.reverse else "first step first"
    about = (
        f"{kernel_name(plan.program)}, resident, for H = {hidden} in {storage.dtype}.\n\n"
        f"The weights stay; a program takes {tile.rows} rows of the batch through all steps, {way}."
    )
    constants = [
        f"H = tl.constexpr({hidden})",
        f"ROWS = tl.constexpr({tile.rows})",
        f'PRECISION = tl.constexpr("{storage.precision}")',
    ]
    if width != hidden:
        constants.insert(1, f"PADDED = tl.constexpr({width})")
    ops = [plan.nodes[index].op for index in plan.computed]
    return module(about, constants, ops, body.kernel())


class _Resident(Body):
    def __init__(self, plan: Plan, names: Names) -> None:
        super().__init__(plan, names)
        self.ragged = padded(plan.program.hidden_size) != plan.program.hidden_size
        self.width = "PADDED" if self.ragged else "H"
        self.carries = dict(plan.program.carries)

    # -- The kernel

    def kernel(self) -> list[str]:
        """The function, its lines."""
        name = kernel_name(self.plan.program)
        self.write(self.plan.computed)
        step = [*self._step_start(), *self.lines, *self._carry_on()]
        lines = [
            '@triton.jit(do_not_specialize=["T", "B"])',
            f"def {name}(",
            *signature(self.plan, self.names),
            "):",
            *_indent(self._start()),
            "    for t in range(T):" if self._needs_time() else "    for _ in range(T):",
            *_indent(step, 2),
        ]
        return [*lines, *_indent(self._end())]

    def _start(self) -> list[str]:
        lines = [
            "row = tl.arange(0, ROWS)[:, None]",
            f"column = tl.arange(0, {self.width})[None, :]",
            *(["real = column < H"] if self._needs_real() else []),
            "first = tl.program_id(0).to(tl.int64) * ROWS  # offsets may be beyond 32 bits",
            f"inside = {'(first + row < B) & real' if self.ragged else 'first + row < B'}",
            "here = row * H + column",
            "start = first * H",
            "stride = B.to(tl.int64) * H",
            *self._weights(),
            *self._rows(),
        ]
        for name, _ in self.plan.program.carries:
            pointer = self._pointer("initial", name)
            lines.append(f"{self._carry(name)} = load({pointer} + start + here, inside)")
        last = " + (T - 1) * stride" if self.plan.program.reverse else ""
        return [*lines, f"at = start{last}"]

    def _wide(self) -> list[str]:
        """Where the step's rows are in the wide sequences: their first slot."""
        plan = self.plan
        slots = {"projected": plan.projected, "gates": plan.gates, "sources": plan.sources}
        return [
            f"{name}_now = {self._pointer(name)} + {len(held)} * (at + row * H) + column"
            for name, held in slots.items()
            if held
        ]

    def _weights(self) -> list[str]:
        if not self.plan.blocks:
            return []
        across = f"tl.arange(0, {self.width})[:, None]"
        lines = [f"block = {across} * H + column"]
        if self.ragged:
            lines.append(f"square = ({across} < H) & (column < H)")
        mask = ", square, 0.0" if self.ragged else ""
        weights = self._pointer("weights")
        for number, block in enumerate(self.plan.blocks):
            offset = f"{_times(number)}H * H + " if number else ""
            lines.append(f"{self.names.blocks[block]} = tl.load({weights} + {offset}block{mask})")
        return lines

    def _rows(self) -> list[str]:
        """The parameters that are vectors or numbers."""
        lines = []
        for name in self.plan.parameters():
            pointer, variable = self._pointer("parameter", name), self._parameter(name)
            if any(n.op == "scalar" and n.param == name for n in self.plan.nodes):
                lines.append(f"{variable} = tl.load({pointer}).to(tl.float32)")
            else:
                lines.append(f"{variable} = load({pointer} + column, real)")
        return lines

    def _step_start(self) -> list[str]:
        lines = self._wide()
        for name in self._shifted():
            rows, initial = self._pointer("sequence", name), self._pointer("initial", name)
            before = self._before(name)
            lines.append(f"{before} = {rows} + at - stride if t < T - 1 else {initial} + start")
        return lines

    def _carry_on(self) -> list[str]:
        """Each carry takes its new value, all at once; and so to the next step."""
        new = [(self._carry(name), self._full(index)) for name, index in self.carries.items()]
        moved = [(old, value) for old, value in new if old != value]
        lines = []
        if moved:
            left, right = zip(*moved, strict=True)
            lines.append(f"{', '.join(left)} = {', '.join(right)}")
        return [*lines, f"at {'-' if self.plan.program.reverse else '+'}= stride"]

    def _end(self) -> list[str]:
        return [
            f"tl.store({self._pointer('final', name)} + start + here, {self._carry(name)}, inside)"
            for name in self.carries
        ]

    def _needs_real(self) -> bool:
        means = any(self.plan.nodes[i].op == "row_mean" for i in self.plan.computed)
        return self.ragged or means or bool(self.plan.parameters())

    def _needs_time(self) -> bool:
        return bool(self._shifted())

    def _shifted(self) -> list[str]:
        reads = [self.plan.nodes[i] for i in self.plan.computed]
        return list(dict.fromkeys(str(n.param) for n in reads if n.op == "read" and n.value))

    # -- Values

    def source(self, index: int) -> Term:
        node = self.plan.nodes[index]
        if node.op == "carry":
            return Term(self._carry(str(node.param)))
        if node.op in ("scalar", "vector"):
            return Term(self._parameter(str(node.param)))
        if node.value:
            return Term(f"load({self._before(str(node.param))} + here, inside)")
        return Term(f"load({self._pointer('sequence', str(node.param))} + at + here, inside)")

    def projected(self, index: int) -> Term:
        if index not in self.plan.projected:
            return Term(self._parameter(f"{self.plan.nodes[index].param}.bias"))
        place = self._place("projected", self.plan.projected, index)
        return Term(f"load({place}, inside)")

    def product(self, factor: int, block: Block) -> Term:
        call = "dot_real(real, " if self.ragged else "dot("
        return Term(f"{call}{self._full(factor)}, {self.names.blocks[block]}, PRECISION)")

    def mean(self, index: int) -> Term:
        return Term(f"row_mean(real, {self._full(index)}, H)")

    def store(self, index: int) -> None:
        value = self.terms[index].text
        for name, written in self.plan.writes:
            if written == index:
                self._store(f"{self._pointer('sequence', name)} + at + here", value)
        for name, held in (("gates", self.plan.gates), ("sources", self.plan.sources)):
            if index in held:
                self._store(self._place(name, held, index), value)

    def _store(self, place: str, value: str) -> None:
        self.lines.append(f"tl.store({place}, {value}, inside)")

    def variable(self, index: int) -> str:
        """The carry's own variable for its new value, once the old one is done with."""
        for name, new in self.carries.items():
            if new == index and self._is_done(name, index):
                return self._carry(name)
        return super().variable(index)

    def _is_done(self, name: str, new: int) -> bool:
        """Whether nothing after the new value, nor half of it, reads the old one."""
        node = self.plan.nodes[new]
        if node.op in NUMBERS | {"carry"} or self.plan.is_narrow(new):
            return False
        end = new - 1 if node.op in ("linear", "pullback") else new
        last = [self._last_read(i) for i in self.plan.computed if self._is_carry(i, name)]
        return all(position <= end for position in last)

    def _is_carry(self, index: int, name: str) -> bool:
        node = self.plan.nodes[index]
        return node.op == "carry" and node.param == name

    def _last_read(self, index: int) -> int:
        """The last node whose statement may read the value."""
        if index in self.carries.values():
            return len(self.plan.nodes)
        readers = [i for i in self.plan.computed if index in self.plan.operands(i)]
        positions = (self._last_read(i) if self.may_inline(i) else i for i in readers)
        return max(positions, default=-1)

    def _full(self, index: int) -> str:
        """The value in every row and column."""
        text = self.term(index).text
        if self.plan.nodes[index].op == "const":
            return f"tl.full([ROWS, {self.width}], {text}, tl.float32)"
        if self.plan.is_narrow(index):
            return f"tl.broadcast_to({text}, ROWS, {self.width})"
        return text

    # -- Names

    def _place(self, name: str, slots: Sequence[int], index: int) -> str:
        """The pointers of a value in its slot of a wide sequence."""
        slot = slots.index(index)
        return f"{name}_now + {_times(slot)}H" if slot else f"{name}_now"

    def _pointer(self, role: str, name: str = "") -> str:
        return self.names.pointers[Argument(role, name)]

    def _carry(self, name: str) -> str:
        return self.names.named(f"carry {name}", name.replace(".", "_"))

    def _before(self, name: str) -> str:
        return self.names.named(f"before {name}", f"{name}_before")

    def _parameter(self, name: str) -> str:
        return self.names.named(f"parameter {name}", name.replace(".", "_"))


def _times(count: int) -> str:
    return f"{count} * " if count > 1 else ""


def _indent(lines: Sequence[str], levels: int = 1) -> list[str]:
    return [" " * 4 * levels + line for line in lines]
