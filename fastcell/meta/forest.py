"""Boosted trees as arrays, so that they are kept without pickle and evaluated in C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _C
from .dataset import Floats

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, each of which adds the value of the leaf that a row ends in to one of the outputs.

    A row goes left at a node where row[column] <= threshold. A leaf leads to itself.
    """

    thresholds: Floats
    columns: Ints
    children: Ints
    """(nodes, 2): left and right."""
    values: Floats
    """Of a leaf, and of a node inside the mean of those that came through."""
    roots: Ints
    outputs: Ints
    """The last two by tree."""
    width: Ints
    """Of a row: () columns."""

    @classmethod
    def of(cls, boosters: Sequence[Any]) -> Forest:
        """LightGBM's boosters, an output each."""
        trees = _Trees()
        for output, booster in enumerate(boosters):
            for tree in booster.dump_model()["tree_info"]:
                trees.add(tree["tree_structure"], output)
        return trees.forest(boosters[0].num_feature())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Forest:
        """The forest that `arrays` gave. Raises ValueError for indices that lead out of it."""
        forest = cls(**{field.name: arrays[field.name] for field in fields(cls)})
        assert forest.compiled is not None
        return forest

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def compiled(self) -> _C.Forest:
        return _C.Forest(
            self.thresholds,
            self.columns,
            self.children,
            self.values,
            self.roots,
            self.outputs,
            int(self.width),
        )

    def evaluate(self, rows: Floats) -> Floats:
        """Rows (N, width) to (N, outputs)."""
        return self.compiled.evaluate(np.ascontiguousarray(rows))

    def contributions(self, row: Floats) -> Floats:
        """(outputs, width): what each column adds to each output, along the row's ways.

        A split adds the difference of the means before and after it; so an output is the mean of
        its roots and the sum of its contributions.

        Source: Saabas, Interpreting random forests (2014).
        """
        added = np.zeros((int(self.outputs.max()) + 1, len(row)), np.float32)
        right = row[self.columns] > self.thresholds
        following = self.children[np.arange(len(right)), right.astype(np.int32)]
        for root, output in zip(self.roots, self.outputs, strict=True):
            at = root
            while (child := following[at]) != at:
                added[output, self.columns[at]] += self.values[child] - self.values[at]
                at = child
        return added


class _Trees:
    """Nodes of the trees, one after the other, as they are added."""

    def __init__(self) -> None:
        self.nodes = list[tuple[float, int, int, int, float]]()
        self.trees = list[tuple[int, int]]()

    def add(self, root: Mapping[str, Any], output: int) -> None:
        self.trees.append((len(self.nodes), output))
        self._add(root)

    def _add(self, node: Mapping[str, Any]) -> None:
        """A node and all below it."""
        at = len(self.nodes)
        if "split_feature" not in node:
            self.nodes.append((0.0, 0, at, at, node["leaf_value"]))
            return
        assert (node["decision_type"], node["missing_type"]) == ("<=", "None")
        self.nodes.append((0.0, 0, 0, 0, 0.0))  # its place; the right child's comes later
        self._add(node["left_child"])
        right_at = len(self.nodes)
        self._add(node["right_child"])
        split = node["threshold"], node["split_feature"], at + 1, right_at, node["internal_value"]
        self.nodes[at] = split

    def forest(self, width: int) -> Forest:
        thresholds, columns, left, right, values = zip(*self.nodes, strict=True)
        roots, outputs = zip(*self.trees, strict=True)
        return Forest(
            thresholds=_rounded_down(np.array(thresholds)),
            columns=np.array(columns, np.int32),
            children=np.ascontiguousarray(np.stack([left, right], axis=1), np.int32),
            values=np.array(values, np.float32),
            roots=np.array(roots, np.int32),
            outputs=np.array(outputs, np.int32),
            width=np.array(width, np.int32),
        )


def _rounded_down(values: NDArray[np.float64]) -> Floats:
    """The largest float32 that is no larger: a float32 is <= either or neither."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
