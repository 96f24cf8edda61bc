"""What operators are called for people: by their sources, or by what they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.model.operator_facts import OperatorFacts
from circletools.model.views import text
from circletools.origin.findings import origin_findings
from circletools.origin.read import NO_NAME, Origins, check_freshness, read_origins

Source = tuple[int, str]
"""The number of a source in the tables and its name; -1 with the name of an output."""


class Naming:
    """Names the sources of operators; `origins` are None where the model has none that describe it.

    `notes` tell what is wrong with those that it has.
    """

    def __init__(self, model: Model, origins: Origins | None, notes: Sequence[Finding] = ()) -> None:
        self.origins, self.notes = origins, tuple(notes)
        self._columns = model.operator_columns

    def sources(self, facts: OperatorFacts, operators: Iterable[int]) -> Iterator[tuple[Source, ...]]:
        """Yield for each operator of a subgraph the sources that the tables give it, ascending.

        Where they give none: the name of its first output.
        """
        outputs = self._columns.first_outputs[facts.rows].tolist()
        described = self.origins.operators[facts.subgraph] if self.origins else {}
        for operator in operators:
            ids = described.get(operator)
            if self.origins and ids:
                yield tuple((one, self.origins.sources[one]) for one in sorted(ids))
            else:
                first = outputs[operator]
                yield ((-1, (text(facts.tensor_names[first]) if first >= 0 else "") or NO_NAME),)


def naming_of(model: Model) -> Naming:
    """Read the tables of a model; those that are stale or broken are only a note."""
    try:
        origins = read_origins(model)
        stale = origins is not None and check_freshness(model, origins).state == "stale"
    except TableFormatError:
        origins, stale = None, True
    if not stale:
        return Naming(model, origins)
    return Naming(model, None, [replace(note, severity="warning") for note in origin_findings(model)])
