"""A program of `programs` as a text of the language: any of the many that mean it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs import Program, Value

PARAMETERS = ("linear", "scalar", "vector")
SYMBOLS = {"add": "+", "mul": "*", "sub": "-", "div": "/"}


def write(program: Program, rng: Random) -> str:
    """A text of the program, any of them."""
    return _Writer(program, rng).text()


class _Writer:
    """Decides what gets a name; the rest is written where it is read.

    A value may be written out at every place that reads it, if no `linear`, `scalar` or `vector` is
    written with it: each one written is another parameter. So either all of those are named, or
    what is read twice is.
    """

    def __init__(self, program: Program, rng: Random) -> None:
        self.values, self.rng, self.program = program.values, rng, program
        self.uses = Counter(program.outputs)
        for index in self.live():
            self.uses.update(self.values[index].args)
        self.lines: list[str] = []
        self.size: dict[int, int] = {}
        self.parameters_named = rng.random() < 0.5
        labels = rng.sample(range(1000), len(self.values) + 1)
        self.fresh = [f"{rng.choice('abcdfghmnpqrsuvwyz')}{label}" for label in labels]
        self.names = {i: self.source(i) for i in range(1 + program.states)}
        self.to_name = {index for index in self.live() if self.wants_name(index)}

    def live(self) -> list[int]:
        """What reaches an output, each after its arguments."""
        order: dict[int, None] = {}

        def visit(index: int) -> None:
            if index not in order:
                for arg in self.values[index].args:
                    visit(arg)
                order[index] = None

        for output in self.program.outputs:
            visit(output)
        return list(order)

    def source(self, index: int) -> str:
        return self.fresh[index] if self.uses[index] else f"_{self.fresh[index]}"

    def wants_name(self, index: int) -> bool:
        value = self.values[index]
        self.size[index] = 1 + sum(self.size[arg] for arg in value.args)
        if index in self.names or value.op == "const":
            return False
        shared = self.uses[index] > 1
        must = self.parameters_named and value.op in PARAMETERS
        must |= shared and (not self.parameters_named or self.size[index] > 8)
        named = must or self.size[index] > 30 or self.rng.random() < 0.5
        if named:
            self.size[index] = 1
        return named

    def text(self) -> str:
        wanted = sorted(self.to_name)
        self.rng.shuffle(wanted)
        for index in wanted:
            self.define(index)
        sources = ", ".join(self.names[i] for i in range(1 + self.program.states))
        outputs = ", ".join(self.expression(output) for output in self.program.outputs)
        return "\n    ".join(
            [f"def {self.fresh[-1]}({sources}):", *self.lines, f"return {outputs}"]
        )

    def define(self, index: int) -> None:
        """A statement for the value, after those that it needs."""
        if index in self.names:
            return
        self.define_parts(index)
        line = self.spell(index)
        self.names[index] = self.fresh[index]
        self.lines.append(f"{self.fresh[index]} = {line}")

    def define_parts(self, index: int) -> None:
        args = list(self.values[index].args)
        self.rng.shuffle(args)
        for arg in args:
            (self.define if arg in self.to_name else self.define_parts)(arg)

    def expression(self, index: int) -> str:
        return self.names.get(index) or self.spell(index)

    def operand(self, index: int) -> str:
        return _wrapped(self.expression(index))

    def spell(self, index: int) -> str:
        value = self.values[index]
        if value.op == "const":
            return repr(value.number)
        if value.op in ("scalar", "vector"):
            return f"{value.op}({value.number!r})"
        if value.op == "linear":
            return self.call("linear", self.sources(value), value.bias)
        if value.op in ("add", "mul"):
            return self.chain(index)
        if value.op in SYMBOLS:
            left, right = map(self.operand, value.args)
            return f"{left} {SYMBOLS[value.op]} {right}"
        if value.op == "neg" and self.rng.random() < 0.7:
            return f"-{self.operand(value.args[0])}"
        return f"{value.op}({self.expression(value.args[0])})"

    def sources(self, value: Value) -> list[str]:
        sources = [self.expression(arg) for arg in value.args]
        self.rng.shuffle(sources)
        return sources

    def call(self, name: str, arguments: list[str], bias: bool) -> str:
        return f"{name}({', '.join(arguments)}{'' if bias else ', bias=False'})"

    def chain(self, index: int) -> str:
        """The operands in any order, joined two at a time in any order."""
        operands = self.operands(index)
        self.rng.shuffle(operands)
        texts = [self.operand(i) for i in operands if self.values[i].op != "const"]
        if self.rng.random() < 0.5 and (gate := self.gate(index, operands)):
            return gate
        symbol = SYMBOLS[self.values[index].op]
        # A number next to a number would be computed by the parser.
        for number in (i for i in operands if self.values[i].op == "const"):
            place = self.rng.randrange(len(texts))
            texts[place] = self.join(texts[place], symbol, self.operand(number))
        while len(texts) > 1:
            place = self.rng.randrange(len(texts) - 1)
            texts[place] = self.join(texts[place], symbol, texts.pop(place + 1))
        return texts[0]

    def join(self, left: str, symbol: str, right: str) -> str:
        if self.rng.random() < 0.5:
            left, right = right, left
        return f"{_wrapped(left)} {symbol} {_wrapped(right)}"

    def operands(self, index: int) -> list[int]:
        """The arguments; a partial sum in a sum may be spelled out."""
        found: list[int] = []
        for arg in self.values[index].args:
            same = self.values[arg].op == self.values[index].op
            free = self.parameters_named and self.size[arg] <= 8
            if same and (free or arg not in self.to_name) and self.rng.random() < 0.5:
                found += self.operands(arg)
            else:
                found.append(arg)
        return found

    def gate(self, index: int, operands: list[int]) -> str | None:
        """gate(a, b, v) for sigmoid(linear(a, b)) * v, when nothing else reads the factor."""
        if self.values[index].op != "mul" or len(operands) != 2:
            return None
        for factor, other in (operands, operands[::-1]):
            squash = self.inline(factor, "sigmoid")
            linear = squash and self.inline(squash.args[0], "linear")
            if linear and linear.bias:
                return self.call("gate", [*self.sources(linear), self.expression(other)], True)
        return None

    def inline(self, index: int, op: str) -> Value | None:
        """The value, if it is this op and has no name."""
        value = self.values[index]
        return value if value.op == op and index not in self.names else None


def _wrapped(text: str) -> str:
    """In parentheses, unless it is a name, a number or a call."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in " -":
            return f"({text})"
    return text
