"""Tensor types and format features in a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from circletools.graph.graph import Graph, ModelGraph
from circletools.requires.table import NEVER, RuntimeTable

OUTSIDE, BLOCKWISE = "data outside the flatbuffer", "blockwise quantization"
ELSEWHERE = "values in another file (CompiledModel)"
_VERSION = 3


class Feature(NamedTuple):
    """A tensor type or feature, the number of tables with it, and the index of the first runtime that supports it."""

    kind: Literal["type", "feature"]
    what: str
    number: int
    first: int


def features(model: ModelGraph, table: RuntimeTable) -> Iterator[Feature]:
    """Yield the tensor types and the format features of a model."""
    names = model.schema.enums["TensorType"]
    counts: Counter[int] = Counter()
    for graph in model.graphs:
        types, numbers = np.unique(graph.values.type_numbers, return_counts=True)
        counts.update(dict(zip(types.tolist(), numbers.tolist(), strict=True)))
    for number, count in sorted(counts.items()):
        name = names.get(number, f"UNKNOWN:{number}")
        yield Feature("type", f"{name} tensors", count, table.types.get(name, NEVER))
    options = [graph.operators.tables.scalars("large_custom_options_offset") for graph in model.graphs]
    others = [graph.values.tables.scalars("external_buffer") for graph in model.graphs]
    found = {
        OUTSIDE: sum(int(np.count_nonzero(offsets > 1)) for offsets in (model.buffers.offsets, *options)),
        BLOCKWISE: sum(map(_blockwise, model.graphs)),
        ELSEWHERE: sum(map(int, map(np.count_nonzero, others))),
        f"schema version {model.source.version}": int(model.source.version != _VERSION),
        "a model without subgraphs": int(not model.graphs),
        "a model without buffers": int(not len(model.buffers)),
    }
    for what, count in found.items():
        if count:
            yield Feature("feature", what, count, table.features.get(what, NEVER))


def _blockwise(graph: Graph) -> int:
    tables, _ = graph.values.tables.child("quantization", graph.values.schema)
    members = graph.values.schema.unions["QuantizationDetails"]
    wanted = [number for number, name in members.items() if name == "BlockwiseQuantization"]
    return int(np.isin(tables.scalars("details_type"), wanted).sum())
