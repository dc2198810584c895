"""The resident strategy: weights are loaded once, and one program runs every step of its rows.

A program takes ROWS rows of the batch; rows are independent, so programs never meet. States stay in
registers from the first step to the last.
"""

from __future__ import annotations

from .body import Body
from .expression import Term
from .module import Storage, Tile, kernel_name, module, padded, parameters
from .names import Names
from .places import indent, needed, times
from .plan import NUMBERS, Plan


def write(plan: Plan, tile: Tile, storage: Storage) -> str:
    """The source of a module with the plan's kernel."""
    body = _Resident(plan, Names(plan, [*plan.inputs(), *plan.outputs()]))
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
        self.write(self.plan.computed)
        step = [*self.places.step(), *self.lines, *self._carry_on()]
        loop = [
            f"for {'t' if self.places.shifted else '_'} in range(T):",
            *indent(step),
            *self._end(),
        ]
        return [
            '@triton.jit(do_not_specialize=["T", "B"])',
            f"def {kernel_name(self.plan.program)}(",
            *parameters(self.plan, self.names),
            "    T,",
            "    B,",
            "):",
            *indent([*needed(self._start(), loop), *loop]),
        ]

    def _start(self) -> list[str]:
        carries = [(self._carry(n), self.places.pointer("initial", n)) for n in self.carries]
        return [
            "row = tl.arange(0, ROWS)[:, None]",
            f"column = tl.arange(0, {self.width})[None, :]",
            "real = column < H",
            "first = tl.program_id(0).to(tl.int64) * ROWS  # offsets may be beyond 32 bits",
            f"inside = {'(first + row < B) & real' if self.ragged else 'first + row < B'}",
            "here = row * H + column",
            "start = first * H",
            "stride = B.to(tl.int64) * H",
            *self._weights(),
            *self.places.parameters(),
            *(f"{name} = load({pointer} + start + here, inside)" for name, pointer in carries),
            f"at = start{' + (T - 1) * stride' if self.plan.program.reverse else ''}",
        ]

    def _weights(self) -> list[str]:
        if not self.plan.blocks:
            return []
        across = f"tl.arange(0, {self.width})[:, None]"
        lines = [f"block = {across} * H + column"]
        if self.ragged:
            lines.append(f"square = ({across} < H) & real")
        mask = ", square, 0.0" if self.ragged else ""
        for number, block in enumerate(self.plan.blocks):
            place = f"weights + {times(number)}H * H + block" if number else "weights + block"
            lines.append(f"{self.names.blocks[block]} = tl.load({place}{mask})")
        return lines

    def _carry_on(self) -> list[str]:
        """Each carry takes its new value, all at once; and so to the next step."""
        new = [(self._carry(name), self.full(index)) for name, index in self.carries.items()]
        moved = [(old, value) for old, value in new if old != value]
        lines = []
        if moved:
            left, right = zip(*moved, strict=True)
            lines.append(f"{', '.join(left)} = {', '.join(right)}")
        return [*lines, f"at {'-' if self.plan.program.reverse else '+'}= stride"]

    def _end(self) -> list[str]:
        pointers = {name: self.places.pointer("final", name) for name in self.carries}
        return [
            f"tl.store({pointer} + start + here, {self._carry(name)}, inside)"
            for name, pointer in pointers.items()
        ]

    # -- Values

    def carried(self, index: int) -> Term:
        return Term(self._carry(str(self.plan.nodes[index].param)))

    def product(self, index: int) -> list[Term]:
        call = "dot_real(real, " if self.ragged else "dot("
        return [
            Term(f"{call}{self.full(factor)}, {self.names.blocks[block]}, PRECISION)")
            for block, factor in self.plan.inner(index)
        ]

    def mean(self, index: int) -> Term:
        return Term(f"row_mean(real, {self.full(self.plan.nodes[index].args[0])}, H)")

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

    def full(self, index: int) -> str:
        return self.fill(index, self.width)

    def _carry(self, name: str) -> str:
        return self.names.named(f"carry {name}", name.replace(".", "_"))
