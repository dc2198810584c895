"""One code taken apart: its fields, its text, and the codes that may share its functional key."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import NamedTuple

SOURCES = ("x", "h", "c", "g", "gate0", "gate1", "gate2", "add")

G, ADD = 3, 7
_GATES = (0, 1, 2)
_SUMS = 127
"""What an output can sum once the Add is spelled out: every source but the Add."""


class Fields(NamedTuple):
    """A code taken apart; see `space` for the layout. Masks, and the numbers of the values."""

    contexts: tuple[int, ...]
    values: tuple[int, ...]
    add: int
    h: int
    c: int

    def pack(self) -> int:
        code = self.add << 33 | self.h << 41 | self.c << 49
        for gate in _GATES:
            code |= (self.contexts[gate] | self.values[gate] << 8) << 11 * gate
        return code


def unpack(code: int) -> Fields:
    """The fields of a code."""
    gates = [code >> 11 * gate for gate in _GATES]
    contexts = tuple(gate & 255 for gate in gates)
    values = tuple(gate >> 8 & 7 for gate in gates)
    return Fields(contexts, values, code >> 33 & 255, code >> 41 & 255, code >> 49 & 255)


def write(fields: Fields, order: tuple[str, ...]) -> str:
    """The cell in the language, its internal nodes in the given order."""
    read = _read(fields)
    statements = {"add": _joined(fields.add, " + ")}
    for gate in _GATES:
        value = SOURCES[fields.values[gate]]
        value = f"tanh({value})" if gate == 2 else value
        statements[f"gate{gate}"] = f"gate({_joined(fields.contexts[gate], ', ')}, {value})"
    # A source that is never read is spelled with an underscore.
    given = [name if read >> i & 1 else f"_{name}" for i, name in enumerate(SOURCES[:3])]
    lines = [f"def cell({', '.join(given)}):"]
    lines += ["g = tanh(linear(x, h))"] if read >> G & 1 else []
    lines += [f"{name} = {statements[name]}" for name in order]
    lines += [f"return {_joined(fields.h, ' + ')}, {_joined(fields.c, ' + ')}"]
    return "\n    ".join(lines)


def _read(fields: Fields) -> int:
    """The mask of all sources that the cell reads, x and h inside g too."""
    mask = fields.add | fields.h | fields.c
    for contexts, value in zip(fields.contexts, fields.values, strict=True):
        mask |= contexts | 1 << value
    return mask | 3 if mask >> G & 1 else mask


def _joined(mask: int, symbol: str) -> str:
    return symbol.join(name for i, name in enumerate(SOURCES) if mask >> i & 1)


def writings(key: Fields) -> Iterator[Fields]:
    """All that might have this functional key; the caller tries them."""
    read = any(mask >> ADD for mask in key.contexts) or ADD in key.values
    for add in [key.add] if read else range(1, _SUMS + 1):
        h_masks, c_masks = (list(_output_masks(mask, key.add, add)) for mask in (key.h, key.c))
        aliases = [{value, ADD} if 1 << value == add else {value} for value in key.values]
        for dealt in permutations(key.contexts):
            contexts = product(*(_context_masks(mask, add) for mask in dealt))
            for own, values, h, c in product(contexts, product(*aliases), h_masks, c_masks):
                yield Fields(own, values, add, h, c)


def _context_masks(mask: int, add: int) -> Iterator[int]:
    """A context as it is, or under the name of an Add of that one source."""
    if mask & (mask - 1):
        yield mask
    if mask & add and not add & (add - 1):
        yield 1 << ADD | (mask if mask == add else mask & ~add)


def _output_masks(mask: int, key_add: int, add: int) -> Iterator[int]:
    """A sum with and without the Add in it."""
    added = key_add if mask >> ADD else 0
    once, twice = (mask & _SUMS) ^ added, mask & added
    if not twice:
        yield once
    if not twice & ~add and not add & ~(once | twice):
        yield 1 << ADD | twice | once & ~add
