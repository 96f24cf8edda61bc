"""The sources of operators: their names in the origin tables, or else their outputs; and those to change first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.options import named_options
from circletools.model.views import text
from circletools.origin.read import NO_NAME, Origins, origin_findings, origins_freshness, origins_in
from circletools.origin.source import NOTHING, Origin, SourceDetails

COMPOSITE = "STABLEHLO_COMPOSITE"
Source = tuple[int, str]
"""The id and name of a source in the origin tables; the id is -1 if the name is that of an output."""


def composites(graphs: Iterable[Graph]) -> dict[tuple[int, int], str]:
    """Return the names of composites (subgraph, index), since composites all have the same operator code."""
    names: dict[tuple[int, int], str] = {}
    for one in graphs:
        rows = np.flatnonzero(one.operators.is_code(COMPOSITE))
        options = zip(rows.tolist(), named_options(one.operators.tables.take(rows), one.model.schema), strict=True)
        names |= {(one.index, row): found.get("name") or "" for row, found in options}
    return names


@dataclass(frozen=True, slots=True)
class OperatorNames:
    """The sources of the operators of one subgraph; the object remains valid after the file is closed."""

    origins: Origins
    described: Mapping[int, Origin]
    outputs: Sequence[int]
    tensors: Sequence[bytes]

    def sources(self, operator: int) -> tuple[Source, ...]:
        """Return an operator's sources from the origin tables, in order, or else the name of its first output."""
        if ids := self.described.get(operator):
            return tuple((one, self.origins.sources[one]) for one in sorted(ids))
        first = self.outputs[operator]
        return ((-1, (text(self.tensors[first]) if first >= 0 else "") or NO_NAME),)

    def details(self, sources: Iterable[Source]) -> tuple[SourceDetails, ...]:
        """Return the details of each of these sources; empty if no source has any."""
        known = self.origins.details
        if not known:
            return ()
        found = tuple(known.get(number, NOTHING) for number, _ in sources)
        return found if any(one is not NOTHING for one in found) else ()


class Naming:
    """Names the sources of operators.

    The origin tables are read on first use; `notes` then describes problems. Stale or broken tables are ignored.
    """

    def __init__(self, model: ModelGraph) -> None:
        self._model = model
        self.notes: tuple[Finding, ...] = ()

    def of(self, facts: Graph) -> OperatorNames:
        """Return the names of the operators of a subgraph."""
        described = self._origins.operators[facts.index]
        return OperatorNames(self._origins, described, facts.first_results.tolist(), facts.values.names)

    @cached_property
    def _origins(self) -> Origins:
        nothing = Origins({}, ({},) * len(self._model))
        try:
            found = origins_in(self._model)
            if found is None or origins_freshness(self._model, found).state != "stale":
                return found or nothing
        except TableFormatError:
            pass  # the error is already one of the findings
        self.notes = tuple(replace(note, severity="warning") for note in origin_findings(self._model))
        return nothing


def fewest_sources(origins: Sequence[Sequence[Source]]) -> list[tuple[Source, list[int]]]:
    """Return sources that together cover all origins (a hitting set), with the positions of the origins they are in.

    The worst sources, those in the most origins, come first; ties keep their order. A source that is alone in an
    origin must be chosen; otherwise the source in most of the remaining origins is chosen first (greedy, so not
    always the minimum).
    """
    members: dict[Source, list[int]] = {}
    for place, origin in enumerate(origins):
        for source in origin:
            members.setdefault(source, []).append(place)
    needed = {origin[0] for origin in origins if len(origin) == 1}
    left = {place for place, origin in enumerate(origins) if needed.isdisjoint(origin)}
    chosen = needed.union(_greedy(members, left))
    ordered = (pair for pair in members.items() if pair[0] in chosen)  # by first position
    return sorted(ordered, key=lambda pair: len(pair[1]), reverse=True)


def _greedy(members: Mapping[Source, Sequence[int]], left: set[int]) -> Iterable[Source]:
    """Yield sources until all origins are covered, each time the source that is in most of the remaining origins."""
    named = list(members) if left else []
    waiting = [(-len(members[source]), number) for number, source in enumerate(named)]
    heapify(waiting)
    while left:
        _, number = heappop(waiting)
        now = (-len(left.intersection(members[named[number]])), number)
        if waiting and now > waiting[0]:  # another source may now be in more of the remaining origins
            heappush(waiting, now)
        else:
            left.difference_update(members[named[number]])
            yield named[number]
