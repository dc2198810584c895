"""Programs that differ from a given one in one thing, which seldom leaves the cell the same."""

from dataclasses import replace
from itertools import combinations
from random import Random

from program_text import PARAMETERS
from programs import Program


def near_miss(program: Program, rng: Random) -> Program:
    """The program with one thing changed."""
    changes = [rewired, rewired, separated, shared, relabelled, exchanged]
    while (missed := rng.choice(changes)(program, rng)) == program:
        pass
    return missed


def changed(program: Program, index: int, **fields: object) -> Program:
    values = list(program.values)
    values[index] = replace(values[index], **fields)
    return replace(program, values=tuple(values))


def rewired(program: Program, rng: Random) -> Program:
    """One argument read from elsewhere; numbers stay, and rows stay rows."""
    rows, values = program.rows(), program.values
    index = rng.choice([i for i, value in enumerate(values) if value.args] or [0])
    places = [p for p, arg in enumerate(values[index].args) if values[arg].op != "const"]
    if not places:
        return program
    place = rng.choice(places)
    args = list(values[index].args)
    usable = [i for i in range(index) if rows[i] >= rows[args[place]] and values[i].op != "const"]
    args[place] = rng.choice(usable)
    return changed(program, index, args=tuple(args))


def separated(program: Program, rng: Random) -> Program:
    """One reader of a parameter gets a copy of its own."""
    values = program.values
    reads = [
        (reader, place)
        for reader, value in enumerate(values)
        for place, arg in enumerate(value.args)
        if values[arg].op in PARAMETERS
    ]
    if not reads:
        return program
    reader, place = rng.choice(reads)
    args = list(values[reader].args)
    longer = replace(program, values=(*values, values[args[place]]))
    args[place] = len(values)
    return changed(longer, reader, args=tuple(args))


def shared(program: Program, rng: Random) -> Program:
    """Two equal parameters become one."""
    values = program.values
    alike = [
        (a, b)
        for a, b in combinations(range(len(values)), 2)
        if values[a] == values[b] and values[a].op in PARAMETERS
    ]
    if not alike:
        return program
    kept, gone = rng.choice(alike)
    move = {gone: kept}
    moved = [
        replace(value, args=tuple(move.get(arg, arg) for arg in value.args)) for value in values
    ]
    outputs = tuple(move.get(output, output) for output in program.outputs)
    return replace(program, values=tuple(moved), outputs=outputs)


def relabelled(program: Program, rng: Random) -> Program:
    """Another bias flag, number or op."""
    index = rng.randrange(len(program.values))
    value = program.values[index]
    if value.op == "linear":
        return changed(program, index, bias=not value.bias)
    if value.op in ("const", "scalar", "vector"):
        return changed(program, index, number=value.number + 1.0)
    other = {"tanh": "sigmoid", "add": "mul", "mul": "add", "sub": "add", "abs": "neg"}
    return changed(program, index, op=other.get(value.op, value.op))


def exchanged(program: Program, rng: Random) -> Program:
    """Arguments, or new states, the other way round."""
    pairs = [i for i, value in enumerate(program.values) if value.op in ("sub", "div")]
    if pairs and rng.random() < 0.5:
        index = rng.choice(pairs)
        args = program.values[index].args
        if program.values[args[0]].op != "const":
            return changed(program, index, args=args[::-1])
    return replace(program, outputs=program.outputs[::-1])
