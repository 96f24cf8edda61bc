"""Tracks origins to a model written by a tool that does not keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from circletools.errors import CircleToolsError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.origin.algebra import UNKNOWN, Origin
from circletools.origin.describe import OperatorRow, Selection, operator_rows
from circletools.origin.names import origins_by_output
from circletools.origin.read import Origins, origins_in
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE
from circletools.origin.tags import tags_of
from circletools.origin.tracking.evidence import Found, Grounds
from circletools.origin.tracking.models import track_models
from circletools.origin.tracking.relation import is_same_network
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class Tracking(Attributes):
    """The result: origins to embed in AFTER, and for each subgraph operator index -> source id -> grounds.

    `rows` are all operators of AFTER with their evidence. `carried` means that the tables in AFTER are those of
    BEFORE: the tool copied the metadata without updating it.
    """

    format: str
    origins: Origins
    grounds: tuple[Mapping[int, Mapping[int, Grounds]], ...]
    rows: tuple[OperatorRow, ...]
    carried: bool

    @property
    def without_origin(self) -> list[tuple[int, int]]:
        """Subgraph and index of the operators without a known origin."""
        return [(row.subgraph, row.index) for row in self.rows if row.index not in self.grounds[row.subgraph]]

    @property
    def notes(self) -> tuple[Finding, ...]:
        """A note with the number of operators without an origin; a warning if no operator has one."""
        left, total = len(self.without_origin), len(self.rows)
        if not left:
            return ()
        message = f"{left} of {total} operators have no origin; complete the JSON and pass it to `embed-origins`"
        return (Finding("OPERATORS_WITHOUT_ORIGIN", "warning" if left == total else "info", "", message),)


def track(before: Model, after: Model, *, min_confidence: float = 0.0) -> Tracking:
    """Give every operator of `after` the sources of the operators of `before` that it computes.

    The sources are those in the tables of `before`; without tables, its operators, numbered over all subgraphs.
    Sources with a confidence (from 0 to 1) below `min_confidence` are omitted. Raises ModelFormatError for a broken
    model and TableFormatError for broken tables, with the name of the file before the location.

    >>> with ct.open("before.tflite") as before, ct.open("after.tflite") as after, ct.edit(after) as edit:
    ...     found = ct.track_origins(before, after, min_confidence=0.25)
    ...     ct.origins.embed(edit, found.origins, replace=found.carried)
    ...     edit.save("out.tflite")
    """
    try:
        return _track(model_graph(before), model_graph(after), min_confidence)
    except CircleToolsError as error:
        broken = _broken_alone(before)
        (broken or error).name_file((before if broken else after).source.name)
        raise (broken or error) from None


def _broken_alone(model: Model) -> CircleToolsError | None:
    """Return the error of comparing a model with itself, if any: such an error is about this model."""
    try:
        _track(model_graph(model), model_graph(model), 0.0)
    except CircleToolsError as error:
        return error
    return None


def _track(before: ModelGraph, after: ModelGraph, min_confidence: float) -> Tracking:
    return track_from(before, _sources(before), after, min_confidence)


def track_from(before: ModelGraph, known: Origins, after: ModelGraph, min_confidence: float = 0.0) -> Tracking:
    """Like `track`, with the origins of `before` given explicitly."""
    tracked = track_models(before, after, tags_of(before))
    same = is_same_network(list(tracked.values()))
    grounds: list[dict[int, dict[int, Grounds]]] = [{} for _ in after.graphs]
    for (old_index, new_index), one in tracked.items():
        origin_of = known.operators[old_index]
        for row, found in enumerate(one.found):
            sources = _by_source(found, origin_of, min_confidence, same)
            if sources:
                grounds[new_index][row] = sources
    operators: tuple[dict[int, Origin], ...] = tuple(
        {index: frozenset(sources) for index, sources in subgraph.items()} for subgraph in grounds
    )
    origins = Origins(known.sources, operators, details=known.details)
    rows = operator_rows(after, origins, Selection())
    return Tracking(after.format, origins, tuple(grounds), tuple(rows), _carried_along(before, after))


def _carried_along(before: ModelGraph, after: ModelGraph) -> bool:
    """Return whether the tables in `after` are those of `before`, copied unread by the tool."""
    return all(
        (old := before.metadata_value(name)) is not None and old == after.metadata_value(name)
        for name in (SOURCE_TABLE, OP_TABLE)
    )


def _by_source(found: Found, origin_of: Mapping[int, Origin], least: float, same: bool) -> dict[int, Grounds]:
    """Return the sources of the operators found; of two ways to one source the more confident counts."""
    best: dict[int, Grounds] = {}
    for row, one in found.items():
        grounds = one if same else Grounds(one.evidence, 0.0)
        if grounds.confidence >= least:
            for source in origin_of.get(row, UNKNOWN):
                if source not in best or best[source].confidence < grounds.confidence:
                    best[source] = grounds
    return dict(sorted(best.items())) if len(best) > 1 else best


def _sources(model: ModelGraph) -> Origins:
    """Return the origins in a model; without any, each operator becomes a source, named after its first output."""
    return origins_in(model) or origins_by_output(model, range(len(model)))
