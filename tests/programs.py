"""Random cells: as a structure, and as one of the many texts that mean it.

`random_program(rng, size)` draws the structure, `program_text.write` a text: names, order of the
statements, what is named, how sums associate and what comes first in them are all drawn, so that
two texts of one program are the same cell. `texts()` is the hypothesis strategy.

Every op of the language occurs. Values stay moderate (no overflow, no division by almost zero, new
states of a few units), so that a sequence can be run through the cell.
"""

from dataclasses import dataclass
from math import exp, inf, sqrt
from random import Random

from hypothesis import strategies as st
from program_text import write

SQUASHING = ("sigmoid", "tanh", "softsign", "softsign_scaled")
STRETCHING = ("relu", "silu", "gelu", "abs", "neg")
NORMS = ("layernorm", "rmsnorm")
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


def random_text(seed: int, size: int) -> str:
    """The text of a random cell of about `size` values besides its input and states."""
    rng = Random(f"{seed} {size}")
    return write(random_program(rng, size), rng)


def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    """Texts of random cells; shrinks towards few values."""
    return st.builds(random_text, st.integers(0, 2**32 - 1), st.integers(1, max_size))
