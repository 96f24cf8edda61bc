"""Number sources from 0 in order of appearance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import cast

import numpy as np
from numpy.typing import NDArray

from circletools.metadata.codec import check_ids
from circletools.origin.read import Origins
from circletools.origin.source import NOTHING, AnySource, Origin, SourceDetails
from circletools.origin.tables import operator_keys

SourcesByOperator = Mapping[int, Sequence[Sequence[AnySource]]]
"""For each subgraph, the sources of its operators."""


@dataclass(frozen=True, slots=True)
class OriginColumns:
    """Origins in the form that is written to tables: the operator-source pairs of each subgraph.

    `numbers` are the sources' numbers in ascending order, `names` are their names; see `operator_keys` for pairs.
    """

    numbers: Sequence[int]
    names: Sequence[str]
    details: Mapping[int, SourceDetails]
    keys: Mapping[int, NDArray[np.uint64]]

    @classmethod
    def of(cls, origins: Origins) -> OriginColumns:
        """Return origins as columns. Raises UsageError for a number that is not a u32."""
        keys = {index: operator_keys(operators) for index, operators in enumerate(origins.operators)}
        check_ids(origins.sources)
        numbers = sorted(origins.sources)
        return cls(numbers, [origins.sources[number] for number in numbers], origins.details, keys)

    def origins(self, subgraph_count: int) -> Origins:
        """Return the origins of a model with this many subgraphs."""
        operators: list[dict[int, Origin]] = [{} for _ in range(subgraph_count)]
        for subgraph, keys in self.keys.items():
            found: dict[int, list[int]] = {}
            for operator, source in zip(
                (keys >> np.uint64(32)).tolist(), keys.astype(np.uint32).tolist(), strict=True
            ):
                found.setdefault(operator, []).append(source)
            operators[subgraph] = {operator: frozenset(sources) for operator, sources in found.items()}
        sources = dict(zip(self.numbers, self.names, strict=True))
        return Origins(sources, tuple(operators), details=self.details)


def numbered(named: SourcesByOperator) -> OriginColumns:
    """Return origins as columns; equal sources get the same number."""
    flat = {subgraph: list(chain.from_iterable(found)) for subgraph, found in named.items()}
    distinct = dict.fromkeys(chain.from_iterable(flat.values()))
    total = sum(map(len, flat.values()))
    numbers = dict(zip(distinct, count(), strict=False)) if len(distinct) < total else None
    keys: dict[int, NDArray[np.uint64]] = {}
    start = 0
    for subgraph, found in named.items():
        size = len(flat[subgraph])
        if numbers is None:  # the usual case: every source has one operator
            sources = np.arange(start, start + size, dtype=np.uint64)
        else:
            sources = np.fromiter(map(numbers.__getitem__, flat[subgraph]), np.uint64, size)
        start += size
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        keys[subgraph] = np.repeat(np.arange(len(found), dtype=np.uint64), lengths) << np.uint64(32) | sources
    plain = set(map(type, distinct)) <= {str}
    names = list(distinct) if plain else [one if isinstance(one, str) else one.name for one in distinct]
    details = {
        number: source.details
        for number, source in enumerate(() if plain else distinct)
        if not isinstance(source, str) and source.details != NOTHING
    }
    return OriginColumns(range(len(names)), cast("list[str]", names), details, keys)
