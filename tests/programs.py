"""Random cells: as a structure, and as one of the many texts that mean it.

`random_program(rng, size)` draws the structure, `write(program, rng)` a text: names, order of the
statements, what is named, how sums associate and what comes first in them are all drawn, so that
two texts of one program are the same cell. `texts()` is the hypothesis strategy.

Every op of the language occurs. Values stay moderate (no overflow, no division by almost zero, new
states of a few units), so that a sequence can be run through the cell.
"""

from collections import Counter
from dataclasses import dataclass
from math import exp, inf, sqrt
from random import Random

from hypothesis import strategies as st

SQUASHING = ("sigmoid", "tanh", "softsign", "softsign_scaled")
STRETCHING = ("relu", "silu", "gelu", "abs", "neg")
NORMS = ("layernorm", "rmsnorm")
PARAMETERS = ("linear", "scalar", "vector")
SYMBOLS = {"add": "+", "mul": "*", "sub": "-", "div": "/"}
NUMBERS = (0.5, 2.0, -1.5, 0.1, 3.0, 1e-3)
LIMIT = 30.0
STATE_LIMIT = 4.0


@dataclass(frozen=True)
class Value:
    """`add` and `mul` take two or more arguments; all else as in the language."""

    op: str
    args: tuple[int, ...] = ()
    number: float = 0.0
    bias: bool = True


@dataclass(frozen=True)
class Program:
    """Values: the input, the states, then the rest; `outputs` are those returned."""

    states: int
    values: tuple[Value, ...]
    outputs: tuple[int, ...]

    def rows(self) -> list[bool]:
        """Which values are rows of H numbers, rather than single numbers."""
        known: dict[int, bool] = {}

        def is_row(index: int) -> bool:
            if index not in known:
                value = self.values[index]
                own = value.op in ("input", "state", "vector", "linear")
                known[index] = own or any(map(is_row, value.args))
            return known[index]

        return [is_row(index) for index in range(len(self.values))]


def random_program(rng: Random, size: int) -> Program:
    """1 to 4 states and some `size` values besides; everything drawn reaches an output."""
    growth = _Growth(rng, states=rng.choice((1, 1, 2, 2, 3, 4)))
    while len(growth.values) < size + 1 + growth.states:
        growth.step()
    outputs = growth.finish()
    return Program(growth.states, tuple(growth.values), outputs)


class _Growth:
    """Grows a list of values, with a bound on the size of each."""

    def __init__(self, rng: Random, states: int) -> None:
        self.rng, self.states = rng, states
        self.values = [Value("input"), *[Value("state")] * states]
        self.bounds = [3.0] + [STATE_LIMIT] * states
        self.rows = [True] * (1 + states)

    def step(self) -> None:
        """One more value, at times with a helper of its own."""
        kinds = [self.linear, self.unary, self.sum, self.product, self.pair, self.number]
        kinds += [self.linear, self.unary, self.sum, self.product, self.parameter, self.norm]
        kinds += [self.gate]
        self.rng.choice(kinds)()

    def add(self, op: str, args: list[int], bound: float, **label: float | bool) -> int:
        self.values.append(Value(op, tuple(args), **label))
        self.bounds.append(bound)
        self.rows.append(op in ("linear", "vector") or any(self.rows[arg] for arg in args))
        return len(self.values) - 1

    def pick(self, most: float = LIMIT, row: bool = False) -> int:
        """Any value within the bound, later ones more often; numbers are taken by `number`."""
        usable = [
            index
            for index, bound in enumerate(self.bounds)
            if bound <= most and self.values[index].op != "const" and (self.rows[index] or not row)
        ]
        return max(self.rng.choice(usable), self.rng.choice(usable)) if usable else self.squash()

    def squash(self) -> int:
        return self.add(self.rng.choice(SQUASHING), [self.pick()], 1.0)

    def linear(self) -> None:
        earlier = [value for value in self.values if value.op == "linear"]
        if earlier and self.rng.random() < 0.3:
            sources = list(self.rng.choice(earlier).args)
        else:
            sources = [self.pick(row=True) for _ in range(self.rng.randint(1, 3))]
        bound = max(self.bounds[source] for source in sources) * sqrt(len(sources))
        self.add("linear", sources, bound, bias=self.rng.random() < 0.8)

    def gate(self) -> None:
        other = self.pick()
        self.linear()
        self.add("sigmoid", [len(self.values) - 1], 1.0)
        self.add("mul", [len(self.values) - 1, other], self.bounds[other])
        # Nothing else reads the parts, so that it can be written as a gate.
        self.bounds[-3:-1] = inf, inf

    def unary(self) -> None:
        op = self.rng.choice((*SQUASHING, *STRETCHING, "exp"))
        arg = self.pick(most=3.0 if op == "exp" else LIMIT)
        bound = self.bounds[arg]
        self.add(op, [arg], 1.0 if op in SQUASHING else exp(bound) if op == "exp" else bound)

    def sum(self) -> None:
        terms = [self.pick() for _ in range(self.rng.choice((2, 2, 3, 4)))]
        self.add("add", terms, sum(self.bounds[term] for term in terms))

    def product(self) -> None:
        factors = [self.pick()]
        for _ in range(self.rng.choice((1, 1, 2))):
            factors.append(self.pick(most=max(1.0, LIMIT / self.bound_of_product(factors))))
        self.add("mul", factors, self.bound_of_product(factors))

    def bound_of_product(self, factors: list[int]) -> float:
        bound = 1.0
        for factor in factors:
            bound *= self.bounds[factor]
        return bound

    def pair(self) -> None:
        """a - b, or a / b with b at least one."""
        left, right = self.pick(), self.pick()
        if self.rng.random() < 0.5:
            self.add("sub", [left, right], self.bounds[left] + self.bounds[right])
            return
        one = self.add("const", [], 1.0, number=1.0)
        positive = self.add("abs", [right], self.bounds[right])
        below = self.add("add", [one, positive], 1.0 + self.bounds[right])
        self.add("div", [left, below], self.bounds[left])

    def number(self) -> None:
        """A number and a value: 1 - f, f * 0.5, 3 + f, f / 2."""
        other = self.pick(most=LIMIT / 3)
        op = self.rng.choice(("sub", "sub", "mul", "add", "div"))
        number = 1.0 if op == "sub" else 2.0 if op == "div" else self.rng.choice(NUMBERS)
        args = [self.add("const", [], abs(number), number=number), other]
        self.add(op, args[::-1] if op == "div" else args, self.bounds[other] * 3 + 1)

    def parameter(self) -> None:
        number = self.rng.choice((0.0, 1.0, 2.0, 0.5))
        op = self.rng.choice(("scalar", "vector"))
        self.add(op, [], max(1.0, number), number=number)

    def norm(self) -> None:
        self.add(self.rng.choice(NORMS), [self.pick(row=True)], 4.0)

    def finish(self) -> tuple[int, ...]:
        """New states that use up whatever nothing has read."""
        read = {arg for value in self.values for arg in value.args}
        rest = [i for i in range(1 + self.states, len(self.values)) if i not in read]
        self.rng.shuffle(rest)
        return tuple(self.new_state(rest[state :: self.states]) for state in range(self.states))

    def new_state(self, terms: list[int]) -> int:
        if not any(self.rows[term] for term in terms):
            terms = [*terms, self.pick(row=True)]
        if len(terms) > 1:
            terms = [self.add("add", terms, inf)]
        if self.bounds[terms[0]] > STATE_LIMIT:
            return self.add(self.rng.choice(("tanh", "softsign", *NORMS)), terms, STATE_LIMIT)
        return terms[0]


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
        return "\n    ".join([f"def {self.fresh[-1]}({sources}):", *self.lines, f"return {outputs}"])

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


def random_text(seed: int, size: int) -> str:
    """The text of a random cell of about `size` values besides its input and states."""
    rng = Random(f"{seed} {size}")
    return write(random_program(rng, size), rng)


def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    """Texts of random cells; shrinks towards few values."""
    return st.builds(random_text, st.integers(0, 2**32 - 1), st.integers(1, max_size))
