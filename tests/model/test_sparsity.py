"""Constants of which only some elements are in the file: whether these are all that there must be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circletools.findings import Finding
from tests.kit.build import Graph, Table
from tests.kit.soundness_support import chain


def level(size: int | None, segments: Sequence[int] = (), indices: Sequence[int] = ()) -> Table:
    if size is not None:
        return Table("DimensionMetadata", format=0, dense_size=size)
    vectors = (Table("Int32Vector", values=list(values)) for values in (segments, indices))
    parts = dict(zip(("array_segments", "array_indices"), vectors, strict=True))
    return Table("DimensionMetadata", format=1, **parts)


def sparse(levels: Sequence[Table], stored: int, order: Sequence[int] = (0, 1)) -> list[Finding]:
    def change(graph: Graph) -> None:
        graph.table.tensors[2].sparsity = Table(
            "SparsityParameters", traversal_order=list(order), dim_metadata=list(levels)
        )
        graph.build.model.buffers[1].data = np.zeros(stored, np.float32).tobytes()

    return chain(change)


def test_sparse_constants_are_as_long_as_their_indices() -> None:
    rows = [level(2), level(None, [0, 1, 3], [0, 0, 1])]
    assert sparse(rows, 3) == []
    (found,) = sparse(rows, 2)
    assert found.code == "CONSTANT_TOO_SHORT"
    assert "takes 12 bytes, but buffer 1 has 8" in found.message


@pytest.mark.parametrize(
    ("levels", "order", "words"),
    [
        ([level(2)], (0,), "levels (1), dimensions (2)"),
        ([level(2), level(2)], (0, 0), "repeats or omits dimensions"),
        ([level(2), level(0)], (0, 1), "level 1 of sparsity has the size 0"),
        ([level(2), level(None, [0, 1], [0])], (0, 1), "do not divide 1 indices among 2"),
        ([level(2), level(None, [0, 2, 1], [0])], (0, 1), "do not divide 1 indices among 2"),
        ([level(2), level(None, [0, 1, 3], [0])], (0, 1), "do not divide 1 indices among 2"),
        ([level(2), Table("DimensionMetadata", format=1)], (0, 1), "level 1 of sparsity has no segments"),
    ],
)
def test_sparsity_that_is_none(levels: Sequence[Table], order: Sequence[int], words: str) -> None:
    (found,) = sparse(levels, 4, order)
    assert (found.code, found.severity) == ("INVALID_SPARSITY", "warning")
    assert words in found.message.split("; LiteRT reads the values as dense ones; ")[-2]
