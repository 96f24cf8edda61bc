"""Tensor types and format features in a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from circletools.graph.graph import Graph, ModelGraph
from circletools.requires.table import NEVER, RuntimeTable
from circletools.wording import Attributes

OUTSIDE, BLOCKWISE = "data outside the flatbuffer", "blockwise quantization"
ELSEWHERE = "values in another file (CompiledModel)"
_VERSION = 3


MOST_SOURCES = 5


@dataclass(frozen=True, slots=True)
class Requirement(Attributes):
    """A feature of a model that not every measured runtime supports.

    `what` names it, as in `FULLY_CONNECTED version 12` or `INT4 tensors`. `first` is the first runtime that supports
    it, or None if no measured one does; `count` is the number of operators, tensors or buffers that have it;
    `sources` are the names of the operators' sources, at most `MOST_SOURCES`.
    """

    kind: Literal["operator", "type", "feature"]
    what: str
    first: str | None
    count: int
    sources: tuple[str, ...] = ()


def features(model: ModelGraph, table: RuntimeTable) -> Iterator[tuple[int, Requirement]]:
    """Yield the tensor types and format features of a model, each with the first runtime that has it."""
    names = model.schema.enums["TensorType"]
    counts: Counter[int] = Counter()
    for graph in model.graphs:
        types, numbers = np.unique(graph.values.type_numbers, return_counts=True)
        counts.update(dict(zip(types.tolist(), numbers.tolist(), strict=True)))
    for number, count in sorted(counts.items()):
        name = names.get(number, f"UNKNOWN:{number}")
        first = table.types.get(name, NEVER)
        yield first, Requirement("type", f"{name} tensors", table.name_of(first), count)
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
            first = table.features.get(what, NEVER)
            yield first, Requirement("feature", what, table.name_of(first), count)


def _blockwise(graph: Graph) -> int:
    tables, _ = graph.values.tables.child("quantization", graph.values.schema)
    members = graph.values.schema.unions["QuantizationDetails"]
    wanted = [number for number, name in members.items() if name == "BlockwiseQuantization"]
    return int(np.isin(tables.scalars("details_type"), wanted).sum())
