"""Pair the inputs and outputs of two graphs: by signature, by position if their numbers are equal, or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from circletools.origin.tracking.view import NONE, Pairs, Side, View, ends_of

Names = Mapping[str, int]
"""The inputs and outputs of a graph by their names in a signature."""


def pair_ends(before: Side, after: Side, named: tuple[tuple[Names, Names], tuple[Names, Names]]) -> Pairs:
    """Return pairs of ends, without operators; `named` holds the names of inputs and outputs, for both models."""
    old, new = ends_of(before.graph), ends_of(after.graph)
    inputs, outputs = (
        tuple(_same_ends((before, after), ends, names))
        for ends, names in zip(zip(old, new, strict=True), named, strict=True)
    )
    return Pairs(np.full(len(before), NONE), np.full(len(after), NONE), inputs, outputs)


def _same_ends(
    sides: tuple[Side, Side], ends: tuple[list[int], list[int]], named: tuple[Names, Names]
) -> Iterator[tuple[int, int]]:
    before, after = sides
    common = named[0].keys() & named[1].keys()
    if common:
        yield from ((named[0][name], named[1][name]) for name in sorted(common))
    elif len(ends[0]) == len(ends[1]):
        outer = [{side.names[end] for end in own} for side, own in zip(sides, ends, strict=True)]
        inner = outer[1].intersection(before.names) - outer[0] - {b""}
        left = outer[0].intersection(after.names)
        for old, new in zip(*ends, strict=True):
            # The end may be an inner value of BEFORE, if the model was cut there.
            cut = after.names[new] in inner and before.names[old] not in left
            if not cut and _alike(sides, old, new):
                yield old, new
    else:
        names = {before.names[value]: value for value in ends[0] if before.names[value]}
        yield from ((names[after.names[end]], end) for end in ends[1] if after.names[end] in names)


def _alike(sides: tuple[Side, Side], old: int, new: int) -> bool:
    """Return whether two ends can correspond: equal size, or equal rank and one equal dimension."""
    sizes = int(sides[0].elements[old]), int(sides[1].elements[new])
    if sizes[0] == sizes[1] or 0 in sizes:
        return True
    shapes = sides[0].shape(old), sides[1].shape(new)
    if len(shapes[0]) != len(shapes[1]):
        return False
    same = any(one == other > 1 for one, other in zip(*shapes, strict=True))
    return same or any(max(shape) == 1 for shape in shapes)


def resized(before: Side, after: Side, pairs: Pairs) -> bool:
    """Return whether an input or output has a different size, in which case sizes inside the models differ too."""
    old, new = np.array([*pairs.inputs, *pairs.outputs], np.int64).reshape(-1, 2).T
    sizes = before.elements[old], after.elements[new]
    return bool(((sizes[0] != sizes[1]) & (sizes[0] > 0) & (sizes[1] > 0)).any())


def cut_ends(now: View, pairs: Pairs) -> tuple[set[int], set[int]]:
    """Return AFTER's inputs and outputs that are not ends of BEFORE, because the model was cut there."""
    ends = ends_of(now.side.graph)
    inputs, outputs = (
        {int(now.value[end]) for end in set(own) - {new for _, new in known}}
        for own, known in zip(ends, (pairs.inputs, pairs.outputs), strict=True)
    )
    return inputs, outputs
