"""Name operators for human readers: by their sources or else by their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.options import named_options
from circletools.model.views import text
from circletools.origin.findings import origin_findings
from circletools.origin.read import NO_NAME, Origins, origins_freshness, origins_in
from circletools.origin.source import NOTHING, Origin, SourceDetails

COMPOSITE = "STABLEHLO_COMPOSITE"
Source = tuple[int, str]
"""The id and name of a source in the origin tables; the id is -1 if the name is that of an output."""


def composite_names(facts: Graph, operators: Iterable[int]) -> dict[int, str]:
    """Return the names of the composites among these operators, since composites all have the same operator code."""
    codes = facts.operators.code_names
    rows = [operator for operator in operators if codes[operator] == COMPOSITE] if COMPOSITE in codes else []
    options = named_options(facts.operators.tables.take(np.array(rows, np.int64)), facts.operators.schema)
    return {row: found["name"] for row, found in zip(rows, options, strict=True) if found.get("name")}


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
