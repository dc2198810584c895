"""The meta-model's columns, against the cell read from its code in plain Python."""

import networkx
import numpy as np
import pytest
from space_oracle import GATES, INTERNAL, SOURCES, unpack

from fastcell import _C, CodeError, space
from fastcell.features import features, names

CODES = space.sample(24 * 8, 11)
ADDING_DAG = 36174204751627013
KINDS = {
    "additive": (0, 0),
    "half open": (0.5, 0),
    "open": (1, 0),
    "half open with tanh": (0.5, 1),
    "open with tanh": (1, 1),
}


def reads(cell, node):
    """What an internal node reads."""
    return cell[node] if node == "add" else cell[node][0] | {cell[node][1]}


def jacobian(cell, opened, slope):
    """d(h', c') / d(x, h, c, g) of the cell with gates and tanh as factors, by linear algebra."""
    weights = np.zeros((8, 8))
    for node in INTERNAL:
        row = SOURCES.index(node)
        if node == "add":
            for source in cell[node]:
                weights[row, SOURCES.index(source)] = 1
        else:
            factor = opened * (slope if node == "gate2" else 1)
            weights[row, SOURCES.index(cell[node][1])] = factor
    values = np.linalg.inv(np.eye(8) - weights)[:, :4]  # acyclic, so the series ends
    return np.array([sum(values[SOURCES.index(s)] for s in cell[out]) for out in ("h'", "c'")])


def expected(code):
    """The columns of a code by name."""
    cell, row = unpack(code), {}
    for gate in GATES:
        contexts, value = cell[gate]
        row |= {f"{gate} reads {s}": s in contexts for s in SOURCES}
        row |= {f"{gate} carries {s}": s == value for s in SOURCES}
    for sums in ("add", "h'", "c'"):
        row |= {f"{sums} sums {s}": s in cell[sums] for s in SOURCES}
    order = space.ORDERS[int(space.order(code))]
    row |= {f"place of {node}": order.index(node) for node in INTERNAL}
    for kind, factors in KINDS.items():
        paths = jacobian(cell, *factors)
        for i, out in enumerate(("h'", "c'")):
            row |= {f"{kind} paths {s} to {out}": paths[i, j] for j, s in enumerate("xhcg")}
        row[f"{kind} growth"] = max(abs(np.linalg.eigvals(paths[:, 1:3])))
    return row | reach(cell) | uses(cell)


def reach(cell):
    graph = networkx.DiGraph([("x", "g"), ("h", "g")])
    graph.add_nodes_from(SOURCES)
    graph.add_edges_from((source, node) for node in INTERNAL for source in reads(cell, node))
    graph.add_edges_from((source, out) for out in ("h'", "c'") for source in cell[out])
    row = {}
    for out in ("h'", "c'"):
        row |= {f"{s} reaches {out}": s in networkx.ancestors(graph, out) for s in "xhc"}
        ways = [way for s in "xhc" for way in networkx.all_simple_paths(graph, s, out)]
        row[f"depth of {out}"] = max(map(len, ways)) - 2
        row[f"shortest way to {out}"] = min(map(len, ways)) - 2
        row[f"bounded {out}"] = all(bounded(cell, s) for s in cell[out])
        row[f"terms of {out}"] = len(cell[out])
    return row


def bounded(cell, source):
    if source in GATES[:2]:
        return bounded(cell, cell[source][1])
    if source == "add":
        return all(bounded(cell, s) for s in cell["add"])
    return source in ("x", "g", "gate2")


def uses(cell):
    row = {}
    for s in SOURCES:
        row[f"contexts of {s}"] = sum(s in cell[gate][0] for gate in GATES)
        row[f"gates on {s}"] = sum(s == cell[gate][1] for gate in GATES)
        sums = sum(s in cell[sums] for sums in ("add", "h'", "c'"))
        row[f"uses of {s}"] = row[f"contexts of {s}"] + row[f"gates on {s}"] + sums
    return row


@pytest.mark.parametrize("code", [ADDING_DAG, *CODES.tolist()])
def test_columns(code):
    wanted = expected(code)
    assert sorted(wanted) == sorted(names())
    row = dict(zip(names(), features([code])[0], strict=True))
    assert {name: pytest.approx(float(value), abs=1e-6) for name, value in wanted.items()} == row


def test_both_codes_of_a_cell_have_one_row():
    twins = [_C.canonicalize(np.array([code]))[0] for code in CODES]
    assert np.array_equal(features(twins), features(CODES))
    swapped = [swap(code) for code in CODES.tolist()]
    assert np.array_equal(features(swapped), features(CODES))
    assert swapped != CODES.tolist()


def swap(code):
    """The code with gate0 and gate1 renamed, bit by bit."""
    fields = [code & 2047, code >> 11 & 2047, code >> 22 & 2047]
    masks = [code >> shift & 255 for shift in (33, 41, 49)]

    def renamed(mask):
        return mask & ~48 | (mask >> 4 & 1) << 5 | (mask >> 5 & 1) << 4

    fields = [renamed(f & 255) | {4: 5, 5: 4}.get(f >> 8, f >> 8) << 8 for f in fields]
    fields[0], fields[1] = fields[1], fields[0]
    return sum(f << 11 * i for i, f in enumerate(fields)) | sum(
        renamed(mask) << shift for mask, shift in zip(masks, (33, 41, 49), strict=True)
    )


def test_shapes_and_bad_codes():
    assert features(np.array([], np.int64)).shape == (0, len(names()))
    assert features(CODES[:5]).dtype == np.float32
    with pytest.raises(CodeError, match="expected codes of cells"):
        features([0])
