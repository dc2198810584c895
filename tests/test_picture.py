"""Pictures: every node and link is there, nothing lies on anything else, and it is XML."""

import re
from collections import Counter
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcell
from fastcell import space
from fastcell.library import CELLS, adding_dag, gru, lstm
from fastcell.picture import draw
from fastcell.picture.diagram import diagram
from fastcell.picture.layout import lay_out
from fastcell.space_cell import SOURCES, unpack

SVG = "{http://www.w3.org/2000/svg}"
CODES = space.sample(96, seed=11).tolist()
SAMPLE = [space.decode(code) for code in CODES]
ODD = fastcell.parse("""
def odd(x, h, _unread):
    twice = h + h
    left = 1 - sigmoid(linear(x, h)) * tanh(twice) / 2
    both = sigmoid(linear(x, left)) * sigmoid(linear(h, x))
    return layernorm(linear(both, bias=False)) * vector(1) - x + 0.5, left
""")
EVERY = pytest.mark.parametrize(
    "cell", [*CELLS.values(), ODD, *SAMPLE[:12]], ids=[*CELLS, "odd", *range(12)]
)


def boxes_of(svg):
    """(left, top, right, bottom) of every box, and the nodes in it."""
    found = []
    for group in svg.iter(f"{SVG}g"):
        if "data-nodes" in group.attrib:
            at = {name: float(value) for name, value in rect_of(group).items()}
            right, bottom = at["x"] + at["width"], at["y"] + at["height"]
            nodes = [int(node) for node in group.get("data-nodes").split()]
            found.append(((at["x"], at["y"], right, bottom), nodes))
    return found


def rect_of(group):
    rect = group.find(f"{SVG}rect")
    return {name: rect.get(name) for name in ("x", "y", "width", "height")}


def points_of(path, steps=24):
    """Points along a link, without its head."""
    d = path.get("d").split("m")[0]
    x = y = 0.0
    for command, numbers in re.findall(r"([MHC])([-\d. ]+)", d):
        values = [float(number) for number in numbers.split()]
        if command == "C":
            ends = [(x, y), *zip(values[::2], values[1::2], strict=True)]
            yield from (bezier(ends, i / steps) for i in range(steps + 1))
            x, y = ends[-1]
        elif command == "H":
            yield from ((x + (values[0] - x) * i / steps, y) for i in range(steps + 1))
            x = values[0]
        else:
            x, y = values


def bezier(ends, t):
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return tuple(sum(w * end[i] for w, end in zip(weights, ends, strict=True)) for i in (0, 1))


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@EVERY
def test_every_node_is_there(cell):
    svg = ElementTree.fromstring(draw(cell))
    drawn = {node for _, nodes in boxes_of(svg) for node in nodes}
    assert drawn == set(range(len(cell.nodes)))


@EVERY
def test_boxes_lie_apart_and_inside(cell):
    svg = ElementTree.fromstring(draw(cell))
    left, top, width, height = map(float, svg.get("viewBox").split())
    boxes = [box for box, _ in boxes_of(svg)]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    assert all(left <= box[0] and box[2] <= left + width + 0.1 for box in boxes)
    assert all(top <= box[1] and box[3] <= top + height + 0.1 for box in boxes)


@EVERY
def test_links_go_right_from_box_to_box_and_through_none(cell):
    """The hardest to see: a line that runs behind a box seems to end there."""
    svg = ElementTree.fromstring(draw(cell))
    boxes = [box for box, _ in boxes_of(svg)]
    paths = svg.findall(f".//{SVG}path[@class='link']")
    links = diagram(cell).links
    assert len(paths) == len(links)
    for path, link in zip(paths, links, strict=True):
        points = list(points_of(path))
        assert all(a[0] <= b[0] + 1e-9 for a, b in pairwise(points))
        start, end = boxes[link.start], boxes[link.end]
        assert points[0][0] == pytest.approx(start[2], abs=0.11)
        assert points[-1][0] == pytest.approx(end[0], abs=0.11)
        assert end[1] < points[-1][1] < end[3]
        others = [box for i, box in enumerate(boxes) if i not in (link.start, link.end)]
        assert not [p for p in points for box in others if overlap((*p, *p), box)]


@pytest.mark.parametrize("packed", CODES)
def test_the_links_of_a_cell_of_the_space_follow_from_its_code(packed):
    """Read off the code: two contexts and a value a gate, a link for each source of a sum."""
    code = unpack(packed)
    expected = Counter()
    for gate, (contexts, value) in enumerate(zip(code.contexts, code.values, strict=True)):
        expected.update((name, f"gate{gate}", True) for name in names_in(contexts))
        expected[SOURCES[value], f"gate{gate}", False] += 1
    for target, mask in (("add", code.add), ("h′", code.h), ("c′", code.c)):
        expected.update((name, target, False) for name in names_in(mask))
    if any(link[0] == "g" for link in expected):
        expected.update({("x", "g", True): 1, ("h", "g", True): 1})
    drawn = diagram(space.decode(packed))
    names = [box.name.lstrip("_") or box.formula for box in drawn.boxes]
    found = Counter((names[a], names[b], weighted) for a, b, weighted in drawn.links)
    # An Add of one source is an alias, which has no node; one that a new state begins with is read.
    if not code.add & (code.add - 1):
        (alone,) = names_in(code.add)
        expected = renamed(expected, "add", alone)
    terms = names_in(code.add)
    assert spelled_out(found, terms) == spelled_out(expected, terms)


def spelled_out(links, terms):
    """With the Add's terms in place of it in the new states."""
    spelled = Counter()
    for (start, end, weighted), count in links.items():
        opened = terms if start == "add" and end in ("h′", "c′") else [start]
        spelled.update({(name, end, weighted): count for name in opened})
    return spelled


def names_in(mask):
    return [name for i, name in enumerate(SOURCES) if mask >> i & 1]


def renamed(links, old, new):
    moved = Counter()
    for (start, end, weighted), count in links.items():
        if end != old:
            moved[new if start == old else start, end, weighted] += count
    return moved


def test_what_is_read_as_one_is_one_box():
    shown = {(box.kind, box.name, box.formula) for box in diagram(lstm).boxes}
    assert ("gate", "o", "σW ⊙ tanh") in shown
    assert ("sum", "c_new", "+") in shown
    assert ("linear", "g", "tanh W") in shown
    assert {kind for kind, _, _ in shown} == {"source", "gate", "linear", "sum", "output"}


def test_a_gate_that_is_read_twice_is_a_box_of_its_own():
    shown = [(box.kind, box.name, box.formula) for box in diagram(gru).boxes]
    assert shown.count(("linear", "z", "σ W")) == 1
    assert ("op", "", "1 −") in shown


def test_labels_are_written():
    texts = [text.text for text in ElementTree.fromstring(draw(adding_dag)).iter(f"{SVG}text")]
    assert {"x", "h", "c", "g", "gate0", "gate1", "gate2", "add", "h′", "c′"} <= set(texts)


def test_at_400_pixels_text_can_be_read():
    """A cell of the space is hardly scaled down: letters keep 8 pixels."""
    for cell in SAMPLE:
        svg = ElementTree.fromstring(draw(cell))
        sizes = [float(text.get("font-size")) for text in svg.iter(f"{SVG}text")]
        assert min(sizes) * min(1, 400 / float(svg.get("width"))) >= 8


def test_a_long_sum_is_one_box():
    terms = " + ".join(["x", "h"] * 20)
    cell = fastcell.parse(f"def long(x, h):\n    return {terms}")
    assert len(diagram(cell).links) == 40


def test_names_are_escaped():
    svg = draw(fastcell.parse("def f(x, h):\n    return abs(x) - h"))
    assert ElementTree.fromstring(svg).find(f"{SVG}title").text == "f"


@given(st.data())
def test_any_graph_is_laid_out_apart(data):
    """Boxes of any size, links of any length."""
    size = st.tuples(st.floats(1, 90), st.floats(1, 60))
    sizes = data.draw(st.lists(size, min_size=2, max_size=12))
    pairs = list(combinations(range(len(sizes)), 2))
    links = data.draw(st.lists(st.sampled_from(pairs), max_size=30))
    last = [len(sizes) - 1]
    first = [i for i in range(len(sizes)) if i not in {end for _, end in links}]
    links += [(i, last[0]) for i in range(last[0])]
    layout = lay_out(sizes, links, [start for start, _ in links], first, last)
    boxes = [
        (layout.x(i) - w / 2, layout.y[i] - h / 2, layout.x(i) + w / 2, layout.y[i] + h / 2)
        for i, (w, h) in enumerate(sizes)
    ]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    for (start, end), passes in zip(links, layout.passes, strict=True):
        columns = range(layout.column_of[start] + 1, layout.column_of[end])
        assert len(passes) == len(columns)
        for column, y in zip(columns, passes, strict=True):
            beside = [b for i, b in enumerate(boxes) if layout.column_of[i] == column]
            assert not any(box[1] < y < box[3] for box in beside)
