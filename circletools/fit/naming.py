"""Name operators for people: by their sources, or else their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.options import named_options
from circletools.model.views import text
from circletools.origin.findings import origin_findings
from circletools.origin.read import NO_NAME, Origins, origins_freshness, origins_in
from circletools.origin.source import NOTHING, SourceDetails

COMPOSITE = "STABLEHLO_COMPOSITE"
Source = tuple[int, str]
"""The id and name of a source in the tables; -1 with the name of an output."""


def composite_names(facts: Graph, operators: Iterable[int]) -> dict[int, str]:
    """Return the names of those of these operators that are composites, which their code leaves open."""
    codes = facts.operators.code_names
    rows = [operator for operator in operators if codes[operator] == COMPOSITE] if COMPOSITE in codes else []
    options = named_options(facts.operators.tables.take(np.array(rows, np.int64)), facts.operators.schema)
    return {row: found["name"] for row, found in zip(rows, options, strict=True) if found.get("name")}


class Naming:
    """Names the sources of operators. The model's origin tables are read at first use.

    `notes` then describes their problems; stale or broken tables are ignored.
    """

    def __init__(self, model: ModelGraph) -> None:
        self._model = model
        self.notes: tuple[Finding, ...] = ()

    def sources(self, facts: Graph, operators: Iterable[int]) -> Iterator[tuple[Source, ...]]:
        """Yield for each operator of a subgraph its sources in the tables, ascending.

        An operator without sources gets the name of its first output.
        """
        outputs, tensors = facts.first_results.tolist(), facts.values.names
        names, described = self._origins.sources, self._origins.operators[facts.index]
        for operator in operators:
            ids = described.get(operator)
            if ids:
                yield tuple((one, names[one]) for one in sorted(ids))
            else:
                first = outputs[operator]
                yield ((-1, (text(tensors[first]) if first >= 0 else "") or NO_NAME),)

    def details(self, sources: Iterable[Source]) -> tuple[SourceDetails, ...]:
        """Return the details of each of these sources; empty if no source has any."""
        known = self._origins.details
        if not known:
            return ()
        found = tuple(known.get(number, NOTHING) for number, _ in sources)
        return found if any(one is not NOTHING for one in found) else ()

    @cached_property
    def _origins(self) -> Origins:
        try:
            found = origins_in(self._model)
            if found is None or origins_freshness(self._model, found).state != "stale":
                return found or self._nothing()
        except TableFormatError:
            pass  # which is one of the findings
        self.notes = tuple(replace(note, severity="warning") for note in origin_findings(self._model))
        return self._nothing()

    def _nothing(self) -> Origins:
        return Origins({}, ({},) * len(self._model))
