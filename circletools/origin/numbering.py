"""Sources get numbers, from 0 in order of appearance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circletools.origin.algebra import Origin
from circletools.origin.read import Origins
from circletools.origin.source import Source, SourceDetails

Named = Mapping[int, Sequence[Sequence[Source]]]
"""Subgraph -> the sources of each of its operators."""


def number_sources(subgraph_count: int, named: Named) -> Origins:
    """Return origins of a model with so many subgraphs; equal sources are one."""
    numbers: dict[Source, int] = {}
    operators: list[dict[int, Origin]] = [{} for _ in range(subgraph_count)]
    for subgraph, found in named.items():
        for operator, sources in enumerate(found):
            if sources:
                ids = (numbers.setdefault(source, len(numbers)) for source in sources)
                operators[subgraph][operator] = frozenset(ids)
    return Origins(
        {number: source.name for source, number in numbers.items()},
        tuple(operators),
        details={number: source.details for source, number in numbers.items() if source.details != SourceDetails()},
    )
