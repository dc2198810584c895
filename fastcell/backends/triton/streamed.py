"""The streamed strategy: weights are read again at every step, a block of columns at a time.

    streamed    one program takes its rows through all steps, with a barrier after each stage
    stepwise    every stage is a launch of its own, over a grid of rows and columns

Both call the same functions, one for each of the step's `stages`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .body import Body
from .expression import Term
from .module import Storage, Tile, kernel_name, module, parameters
from .names import Names
from .places import call, indent, mentions, needed, times
from .plan import Block
from .stages import Stages, is_free, row_operands

_FIRST = "first = tl.program_id(0).to(tl.int64) * ROWS  # offsets may be beyond 32 bits"


def write(stages: Stages, tile: Tile, storage: Storage, stepwise: bool = False) -> str:
    """The source of a module with the kernels: one, or if `stepwise` one for each stage."""
    plan = stages.plan
    hidden, strategy = plan.program.hidden_size, "stepwise" if stepwise else "streamed"
    names = Names(plan, [*stages.inputs(), *stages.outputs()])
    about = (
        f"{kernel_name(plan.program)}, {strategy}, for H = {hidden} in {storage.dtype}.\n\n"
        f"Weights are read at every step; a stage computes {tile.columns} columns of {tile.rows}"
        " rows at a time."
    )
    constants = [
        f"H = tl.constexpr({hidden})",
        f"ROWS = tl.constexpr({tile.rows})",
        f"COLUMNS = tl.constexpr({tile.columns})",
        f"DEPTH = tl.constexpr({tile.depth})",
        f'PRECISION = tl.constexpr("{storage.precision}")',
    ]
    functions = [_Stage(stages, names, tile, stage) for stage in range(stages.count)]
    lines = [line for function in functions for line in (*function.source(), "", "")]
    kernels = _launched(stages, functions) if stepwise else _loop(stages, functions)
    ops = [plan.nodes[index].op for index in plan.computed]
    return module(about, constants, ops, [*lines, *kernels])


def stage_kernels(stages: Stages) -> list[str]:
    """The names of the stepwise kernels, in their order."""
    name = kernel_name(stages.plan.program)
    return [f"{name}_{stage}" for stage in range(stages.count)]


def _loop(stages: Stages, functions: Sequence[_Stage]) -> list[str]:
    """One kernel for all steps."""
    steps = list[str]()
    for function in functions:
        steps += ["for left in range(0, H, COLUMNS):", *indent(function.call())]
        steps += ["tl.debug_barrier()"]
    return [
        '@triton.jit(do_not_specialize=["T", "B"])',
        f"def {kernel_name(stages.plan.program)}(",
        *parameters(stages.plan, functions[0].names),
        "    T,",
        "    B,",
        "):",
        f"    {_FIRST}",
        "    for t in range(T):",
        *indent(steps, 2),
    ]


def _launched(stages: Stages, functions: Sequence[_Stage]) -> list[str]:
    """A kernel for each stage of step t."""
    lines = list[str]()
    for function, kernel in zip(functions, stage_kernels(stages), strict=True):
        lines += [
            *(["", ""] if lines else []),
            '@triton.jit(do_not_specialize=["T", "B", "t"])',
            f"def {kernel}(",
            *parameters(stages.plan, function.names),
            "    T,",
            "    B,",
            "    t,",
            "):",
            f"    {_FIRST}",
            "    left = tl.program_id(1) * COLUMNS",
            *indent(function.call()),
        ]
    return lines


class _Stage(Body):
    """The function of one stage: some columns, from `left` on, of a program's rows in step t."""

    def __init__(self, stages: Stages, names: Names, tile: Tile, stage: int) -> None:
        super().__init__(stages.plan, names)
        self.stages, self.stage = stages, stage
        hidden = stages.plan.program.hidden_size
        self.ragged = bool(hidden % tile.columns or hidden % tile.depth)
        self.own = [i for i in stages.nodes(stage) if stages.levels[i] == stage]
        self.write(stages.nodes(stage))
        rest = [*self._products(), *self.lines]
        self.body = [*needed([*self._start(), *self._scratch()], rest), *rest]
        given = [*names.pointers.values(), "T", "B", "t", "first", "left"]
        self.given = [name for name in given if mentions(self.body, name)]

    def source(self) -> list[str]:
        """The function's lines."""
        *head, last = call(f"def _stage_{self.stage}", self.given)
        return ["@triton.jit", *head, f"{last}:", *indent(self.body)]

    def call(self) -> list[str]:
        """Its call, by names that are the same everywhere."""
        return call(f"_stage_{self.stage}", self.given)

    def _start(self) -> list[str]:
        time = "(T - 1 - t)" if self.plan.program.reverse else "t"
        return [
            "row = tl.arange(0, ROWS)[:, None]",
            "column = left + tl.arange(0, COLUMNS)[None, :]",
            "real = column < H",
            "there = first + row < B",
            f"inside = {'there & real' if self.ragged else 'first + row < B'}",
            "here = row * H + column",
            "start = first * H",
            "stride = B.to(tl.int64) * H",
            f"at = start + {time} * stride",
            *self.places.parameters(),
            *self.places.step(),
        ]

    def _scratch(self) -> list[str]:
        """Where carries and values are in `scratch`; a carry's two slots take turns."""
        lines = []
        for number, (name, _) in enumerate(self.plan.program.carries):
            old, new = f"({2 * number} + t % 2)", f"({2 * number + 1} - t % 2)"
            lines.append(f"{self._turn(name, 'old')} = scratch + {old} * stride + start")
            lines.append(f"{self._turn(name, 'next')} = scratch + {new} * stride + start")
        for index in self.stages.passed:
            slot = times(self.stages.slot(index))
            lines.append(f"{self._slot(index)} = scratch + {slot}stride + start")
        return lines

    def _products(self) -> list[str]:
        """One loop over whole rows, for all the products and means of the stage."""
        sums = [index for index in self.own if row_operands(self.plan, index)]
        if not sums:
            return []
        factors = dict.fromkeys(f for index in sums for f in row_operands(self.plan, index))
        loop = [
            "deep = k + tl.arange(0, DEPTH)",
            "block = deep[:, None] * H + column",
            "square = (deep[:, None] < H) & real",
            f"whole = {'there & (deep[None, :] < H)' if self.ragged else 'inside'}",
        ]
        for factor in factors:
            rows = f"{self._rows(factor)} + row * H + deep[None, :]"
            loop.append(f"{self._deep(factor)} = load({rows}, whole)")
        added = [line for index in sums for line in self._added(index)]
        return [
            *(f"{self._sum(i)} = tl.zeros([ROWS, {self._width(i)}], tl.float32)" for i in sums),
            "for k in range(0, H, DEPTH):",
            *indent([*needed(loop, added), *added]),
        ]

    def _width(self, index: int) -> str:
        """The columns of a sum: a product's own, or those that a mean adds up in the end."""
        return "COLUMNS" if self.plan.inner(index) else "DEPTH"

    def _added(self, index: int) -> list[str]:
        """The statements that add to a node's sum."""
        total, products = self._sum(index), self.plan.inner(index)
        if not products:
            return [f"{total} += {self._deep(self.plan.nodes[index].args[0])}"]
        factors = [(self._deep(factor), self._weight(block)) for block, factor in products]
        return [f"{total} += dot({value}, {weight}, PRECISION)" for value, weight in factors]

    def _weight(self, block: Block) -> str:
        number = self.plan.blocks.index(block)
        place = f"weights + {times(number)}H * H + block" if number else "weights + block"
        return f"tl.load({place}, square, 0.0)" if self.ragged else f"tl.load({place})"

    # -- Values

    def carried(self, index: int) -> Term:
        old = self._turn(str(self.plan.nodes[index].param), "old")
        return Term(f"load({old} + here, inside)")

    def expression(self, index: int) -> Term:
        if index in self.own or is_free(self.plan, index):
            return super().expression(index)
        return Term(f"load({self._slot(index)} + here, inside)")

    def stores(self, index: int) -> list[str]:
        if index not in self.own:
            return []
        carries = [name for name, node in self.plan.program.carries if node == index]
        places = [self._turn(name, "next") for name in carries]
        places += [self._slot(index)] if index in self.stages.passed else []
        return [*super().stores(index), *(f"{place} + here" for place in places)]

    def may_inline(self, index: int) -> bool:
        return super().may_inline(index) and index not in self.stages.passed

    def product(self, index: int) -> list[Term]:
        return [Term(self._sum(index))] if self.plan.inner(index) else []

    def mean(self, index: int) -> Term:
        mean = f"tl.sum({self._sum(index)}, 1, keep_dims=True) / H"
        return Term(f"tl.broadcast_to({mean}, ROWS, COLUMNS)")

    def full(self, index: int) -> str:
        return self.fill(index, "COLUMNS")

    # -- Names

    def _rows(self, factor: int) -> str:
        """Where a factor's rows are."""
        node = self.plan.nodes[factor]
        if node.op == "read":
            return self.places.read(factor)
        return self._turn(str(node.param), "old") if node.op == "carry" else self._slot(factor)

    def _turn(self, name: str, turn: str) -> str:
        return self.names.named(f"{turn} {name}", f"{name.replace('.', '_')}_{turn}")

    def _slot(self, index: int) -> str:
        return self.names.named(f"passed {index}", f"{self.variable(index)}_passed")

    def _deep(self, index: int) -> str:
        node = self.plan.nodes[index]
        carried = str(node.param).replace(".", "_") if node.op == "carry" else None
        return self.names.named(f"deep {index}", f"{carried or self.variable(index)}_deep")

    def _sum(self, index: int) -> str:
        node = self.plan.nodes[index]
        return self.names.named(f"sum {index}", f"sum_{node.param or node.name or index}")
