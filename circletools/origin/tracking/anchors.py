"""The pairs that are certain from the start: subgraphs, and their inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from circletools.model.model import Model
from circletools.origin.tracking.side import NONE, Side


@dataclass(slots=True)
class Anchors:
    """Pairs (BEFORE, AFTER) of subgraphs, and of the tensor rows that are their inputs and outputs.

    An output's key (subgraph, slot) comes with its pair, as one tensor may be several outputs.
    """

    subgraphs: dict[int, int] = field(default_factory=dict)
    inputs: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[tuple[int, int]] = field(default_factory=list)

    def resized(self, before: Side, after: Side) -> bool:
        """Say whether an input or output has another size: then sizes inside of the models differ, too."""
        pairs = np.array([*self.inputs, *self.outputs], np.int64).reshape(-1, 2)
        old, new = before.elements[pairs[:, 0]], after.elements[pairs[:, 1]]
        return bool(((old != new) & (old > 0) & (new > 0)).any())

    def add(self, before: Side, after: Side, pairs: Iterable[tuple[int, int]]) -> bool:
        """Add the pairs of subgraphs of which neither has a partner yet; say whether any was added."""
        taken = set(self.subgraphs.values())
        fresh = False
        for old, new in pairs:
            if old in self.subgraphs or new in taken:
                continue
            self.subgraphs[old] = new
            taken.add(new)
            fresh = True
            for direction, found in (("inputs", self.inputs), ("outputs", self.outputs)):
                found.extend(_pair_ends(before, after, old, new, direction))
        return fresh


def subgraph_pairs(before: Model, after: Model) -> Iterator[tuple[int, int]]:
    """Yield the subgraphs that belong together by signature, then the main ones, then by name."""
    old_keys = {signature.key: signature.subgraph for signature in before.signatures}
    for signature in after.signatures:
        if signature.key in old_keys:
            pair = old_keys[signature.key], signature.subgraph
            if pair[0] < len(before.subgraphs) and pair[1] < len(after.subgraphs):
                yield pair
    if len(before.subgraphs) and len(after.subgraphs):
        yield 0, 0
    if len(before.subgraphs) > 1 and len(after.subgraphs) > 1:
        names = [model.subgraph_tables.strings("name") for model in (before, after)]
        counts = [Counter(side) for side in names]
        old_names = {name: index for index, name in enumerate(names[0])}
        for index, name in enumerate(names[1]):
            if name and counts[0][name] == counts[1][name] == 1:
                yield old_names[name], index


def _pair_ends(before: Side, after: Side, old: int, new: int, direction: str) -> Iterator[tuple[int, int]]:
    old_ends, new_ends = before.boundary(old, direction), after.boundary(new, direction)
    by_name = [_signature_ends(side, subgraph, direction) for side, subgraph in ((before, old), (after, new))]
    common = by_name[0].keys() & by_name[1].keys()
    names = before.names, after.names
    if common:
        yield from ((by_name[0][name], by_name[1][name]) for name in sorted(common))
    elif len(old_ends) == len(new_ends):
        asked = [{names[side][end] for end in ends} for side, ends in enumerate((old_ends, new_ends))]
        outer = set(old_ends)
        inner = {
            names[0][row]: row
            for row in before.model.tensor_columns.rows_of(old)
            if names[0][row] in asked[1] and row not in outer
        }
        left = asked[0].intersection(names[1][row] for row in after.model.tensor_columns.rows_of(new))
        for pair in zip(old_ends, new_ends, strict=True):
            was, now = names[0][pair[0]], names[1][pair[1]]
            # The end may be a tensor inside BEFORE: then the model was cut there.
            cut = was and now in inner and was not in left and _is_inside(before, after, inner[now], pair[1])
            if not cut and _alike(before, after, *pair):
                yield pair
    else:
        old_names = {names[0][tensor]: tensor for tensor in old_ends if names[0][tensor]}
        yield from ((old_names[names[1][end]], end) for end in new_ends if names[1][end] in old_names)


def _is_inside(before: Side, after: Side, old: int, new: int) -> bool:
    """Say whether an end is this tensor inside BEFORE: operators of one code make it, or of one code take it."""
    makers = int(before.producer[old]), int(after.producer[new])
    if NONE not in makers:
        return before.codes[makers[0]] == after.codes[makers[1]]
    takers = [
        {side.codes[row] for row in side.inputs.operator[side.inputs.tensor == tensor].tolist()}
        for side, tensor in ((before, old), (after, new))
    ]
    return makers[1] == NONE and not takers[0].isdisjoint(takers[1])


def _alike(before: Side, after: Side, old: int, new: int) -> bool:
    """Say whether two ends can be the same one: of one size, or of one rank and a dimension in common."""
    sizes = int(before.elements[old]), int(after.elements[new])
    if sizes[0] == sizes[1] or 0 in sizes:
        return True
    shapes = before.shape(old), after.shape(new)
    if len(shapes[0]) != len(shapes[1]):
        return False
    same = any(one == other > 1 for one, other in zip(*shapes, strict=True))
    return same or any(max(shape) == 1 for shape in shapes)


def _signature_ends(side: Side, subgraph: int, direction: str) -> dict[str, int]:
    rows = side.model.tensor_columns.rows_of(subgraph)
    return {
        name: rows[tensor]
        for signature in side.model.signatures
        if signature.subgraph == subgraph
        for name, tensor in (signature.inputs if direction == "inputs" else signature.outputs)
        if 0 <= tensor < len(rows)
    }
