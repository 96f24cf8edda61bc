"""The elements that a sparse tensor stores, and their positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Schema

_DENSE, _SPARSE = 0, 1


def sparse_elements(tensor: Tables, schema: Schema) -> int | str:
    """Return the number of stored elements of a sparse tensor by its sparsity, or the error in the sparsity.

    The levels are walked in storage order: a dense level multiplies the number by its size; a sparse level has as
    many elements as indices, which its segments divide.
    """
    sparsity, _ = tensor.child("sparsity", schema)
    order, levels = sparsity.vectors("traversal_order"), sparsity.children("dim_metadata", schema)[0]
    rank, blocks = int(tensor.vectors("shape").count[0]), int(sparsity.vectors("block_map").count[0])
    if len(levels) != int(order.count[0]) or len(levels) != rank + blocks:
        return f"sparsity has {len(levels)} levels for {rank} dimensions and {blocks} of blocks"
    if sorted(order.row(0).tolist()) != list(range(len(levels))):
        return "the traversal order of sparsity repeats or omits dimensions"
    stored = 1
    sizes, formats = levels.scalars("dense_size").tolist(), levels.scalars("format").tolist()
    for at, (size, kind) in enumerate(zip(sizes, formats, strict=True)):
        if kind == _DENSE:
            if size <= 0:
                return f"level {at} of sparsity has the size {size}"
            stored *= size
            continue
        level = levels.take(slice(at, at + 1))
        segments, indices = (_numbers(level, name, schema) for name in ("array_segments", "array_indices"))
        if kind != _SPARSE or segments is None or indices is None:
            return f"level {at} of sparsity has no segments or indices"
        if len(segments) != stored + 1 or (np.diff(segments) < 0).any() or int(segments[-1]) != len(indices):
            return f"level {at} of sparsity: the segments do not divide {len(indices)} indices among {stored}"
        stored = len(indices)
    return stored


def sparse_coordinates(tensor: Tables, schema: Schema) -> list[NDArray[np.int64]]:
    """Return the coordinates of the stored elements of a sparse tensor, by dimension; its sparsity must be valid."""
    sparsity, _ = tensor.child("sparsity", schema)
    levels = sparsity.children("dim_metadata", schema)[0]
    sizes, rank = levels.scalars("dense_size").tolist(), int(tensor.vectors("shape").count[0])
    found: dict[int, NDArray[np.int64]] = {}
    stored = 1
    for at, dimension in enumerate(sparsity.vectors("traversal_order").row(0).tolist()):
        level = levels.take(slice(at, at + 1))
        segments, indices = (_numbers(level, name, schema) for name in ("array_segments", "array_indices"))
        if levels.scalars("format")[at] == _DENSE or segments is None or indices is None:
            repeats: NDArray[np.int64] = np.full(stored, sizes[at], np.int64)
            indices = np.tile(np.arange(sizes[at]), stored)
        else:
            repeats = np.diff(segments)
        found = {known: np.repeat(above, repeats) for known, above in found.items()} | {dimension: indices}
        stored = len(indices)
    for number, dimension in enumerate(sparsity.vectors("block_map").row(0).tolist()):
        block = sizes[sparsity.vectors("traversal_order").row(0).tolist().index(rank + number)]
        found[dimension] = found.get(dimension, np.zeros(stored, np.int64)) * block + found[rank + number]
    return [found[dimension] for dimension in range(rank)]


def _numbers(level: Tables, name: str, schema: Schema) -> NDArray[np.int64] | None:
    """Return the numbers of a level, or None."""
    field = level.field(name)
    member = schema.unions[str(field.target)].get(int(level.union_codes(field)[0]))
    target = level.targets(name)
    if member is None or not target[0]:
        return None
    values: NDArray[np.int64] = Tables(level.wire, schema.tables[member], target).vectors("values").row(0)
    return values.astype(np.int64)
