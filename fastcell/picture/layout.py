"""Where the boxes of a layered drawing lie: columns from left to right, links only go right.

Each box stands in the column after its last source. A link that passes a column has a place there,
so that no line runs through a box; links of one bundle share it, and run as one line as far as they
go the same way. Within a column the order is that of the means of
the neighbours' places (Sugiyama, Tagawa and Toda 1981), and heights are the nearest to those of the
neighbours that leave room between the boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

COLUMN_GAP, ROW_GAP = 26.0, 10.0
_SWEEPS = 12
_LINE = 2.0
"""Height that a link takes where it passes a column."""


@dataclass
class _Place:
    """A box, or a link in a column that it passes."""

    height: float
    left: list[int]
    right: list[int]
    y: float = 0.0


@dataclass(frozen=True)
class Layout:
    """Centres of the boxes, and for each link the heights at which it passes columns."""

    columns: tuple[tuple[float, float], ...]
    """(left, right) of each."""
    column_of: tuple[int, ...]
    y: tuple[float, ...]
    passes: tuple[tuple[float, ...], ...]
    height: float

    @property
    def width(self) -> float:
        return self.columns[-1][1]

    def x(self, box: int) -> float:
        """The middle of the box's column."""
        return fmean(self.columns[self.column_of[box]])


def lay_out(
    sizes: Sequence[tuple[float, float]],
    links: Sequence[tuple[int, int]],
    bundles: Sequence[Hashable],
    first: Sequence[int],
    last: Sequence[int],
) -> Layout:
    """Boxes of (width, height); links go up in number, those of a bundle come from one box.

    The drawing begins at (0, 0), `first` at its left and `last` at its right end.
    """
    column_of = _columns(len(sizes), links, first, last)
    places = [_Place(height, [], []) for _, height in sizes]
    rows: list[list[int]] = [[] for _ in range(max(column_of) + 1)]
    for box, column in enumerate(column_of):
        rows[column].append(box)
    ways = defaultdict[Hashable, dict[int, int]](dict)
    chains = [
        _chain(places, rows, ways[bundle], range(column_of[start] + 1, column_of[end]))
        for (start, end), bundle in zip(links, bundles, strict=True)
    ]
    _tie(places, links, chains)
    _order(places, rows)
    _straighten(places, rows)
    height = _from_zero(places)
    return Layout(
        columns=tuple(_spans(sizes, column_of)),
        column_of=tuple(column_of),
        y=tuple(place.y for place in places[: len(sizes)]),
        passes=tuple(tuple(places[i].y for i in chain) for chain in chains),
        height=height,
    )


def _columns(
    boxes: int, links: Sequence[tuple[int, int]], first: Sequence[int], last: Sequence[int]
) -> list[int]:
    """The column of each box: the longest way to it, 0 for the first, the end for the last ones.

    Other boxes that nothing flows into stand right before the first that they flow into.
    """
    sources, targets = (defaultdict[int, list[int]](list) for _ in range(2))
    for start, end in links:
        sources[end].append(start)
        targets[start].append(end)
    columns = list[int]()
    for box in range(boxes):
        columns.append(max((columns[source] + 1 for source in sources[box]), default=0))
    for box in range(boxes):
        if not sources[box] and box not in first:
            columns[box] = min(columns[target] for target in targets[box]) - 1
    end = max(columns)
    return [end if box in last else column for box, column in enumerate(columns)]


def _chain(
    places: list[_Place], rows: list[list[int]], way: dict[int, int], columns: range
) -> list[int]:
    """The places in the columns that a link passes: those of its bundle, or new ones."""
    for column in columns:
        if column not in way:
            way[column] = len(places)
            rows[column].append(len(places))
            places.append(_Place(_LINE, [], []))
    return [way[column] for column in columns]


def _tie(
    places: list[_Place], links: Sequence[tuple[int, int]], chains: Sequence[Sequence[int]]
) -> None:
    """Makes neighbours of what links connect, each pair once."""
    ways = ([start, *chain, end] for (start, end), chain in zip(links, chains, strict=True))
    for left, right in dict.fromkeys(pair for way in ways for pair in pairwise(way)):
        places[left].right.append(right)
        places[right].left.append(left)


def _order(places: list[_Place], rows: list[list[int]]) -> None:
    """Sorts each column by its neighbours, to and fro; keeps the order that crosses least."""
    best = (_crossings(places, rows), [list(row) for row in rows])
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for row in rows[1:] if forward else rows[-2::-1]:
            rank = _ranks(rows)
            near = {i: places[i].left if forward else places[i].right for i in row}
            row.sort(key=lambda i: fmean(rank[j] for j in near[i]) if near[i] else rank[i])
        crossings = _crossings(places, rows)
        if crossings < best[0]:
            best = (crossings, [list(row) for row in rows])
    rows[:] = best[1]


def _ranks(rows: list[list[int]]) -> dict[int, float]:
    """How far down each place is in its column, in 0 .. 1."""
    return {i: (at + 0.5) / len(row) for row in rows for at, i in enumerate(row)}


def _crossings(places: list[_Place], rows: list[list[int]]) -> int:
    rank = _ranks(rows)
    count = 0
    for row in rows:
        ends = [(rank[i], rank[j]) for i in row for j in places[i].right]
        count += sum(
            (a[0] - b[0]) * (a[1] - b[1]) < 0 for n, a in enumerate(ends) for b in ends[:n]
        )
    return count


def _straighten(places: list[_Place], rows: list[list[int]]) -> None:
    """Moves places towards the heights of their neighbours, column by column."""
    for row in rows:
        _settle(places, row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _settle(places, row, [_wish(places, i) for i in row])


def _wish(places: list[_Place], i: int) -> float:
    near = places[i].left + places[i].right
    return fmean(places[j].y for j in near) if near else places[i].y


def _settle(places: list[_Place], row: list[int], wishes: list[float]) -> None:
    """The heights nearest to the wishes, in least squares, that keep order and distance."""
    offsets = [0.0]
    for above, below in pairwise(row):
        apart = (places[above].height + places[below].height) / 2 + ROW_GAP
        offsets.append(offsets[-1] + apart)
    level = _isotonic([wish - offset for wish, offset in zip(wishes, offsets, strict=True)])
    for i, y, offset in zip(row, level, offsets, strict=True):
        places[i].y = y + offset


def _isotonic(values: list[float]) -> Iterator[float]:
    """The nearest values that never fall: neighbours that do are pooled into their mean."""
    pools = list[tuple[float, int]]()
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    for mean, count in pools:
        yield from [mean] * count


def _from_zero(places: list[_Place]) -> float:
    """Moves all so that the drawing begins at height 0; its height."""
    top = min(place.y - place.height / 2 for place in places)
    for place in places:
        place.y -= top
    return max(place.y + place.height / 2 for place in places)


def _spans(
    sizes: Sequence[tuple[float, float]], column_of: Sequence[int]
) -> Iterator[tuple[float, float]]:
    """(left, right) of each column, as wide as its widest box."""
    left = 0.0
    for column in range(max(column_of) + 1):
        widths = (width for (width, _), at in zip(sizes, column_of, strict=True) if at == column)
        right = left + max(widths)
        yield left, right
        left = right + COLUMN_GAP
