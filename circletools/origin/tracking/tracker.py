"""Origins for a model that was made by a tool which does not keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count, pairwise

import numpy as np

from circletools.errors import CircleToolsError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.views import text
from circletools.origin.algebra import UNKNOWN, Origin
from circletools.origin.describe import OperatorRow, Selection, operator_rows
from circletools.origin.read import NO_NAME, Origins, read_origins
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE
from circletools.origin.tracking.anchors import Anchors, subgraph_pairs
from circletools.origin.tracking.calibration import calibrated, related
from circletools.origin.tracking.constants import classify
from circletools.origin.tracking.cover import Found, cover
from circletools.origin.tracking.ends import drop_the_adrift, revise
from circletools.origin.tracking.kinship import kinship
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.names import pair_by_name
from circletools.origin.tracking.score import Evidence, Scorer, drop_the_unlikely
from circletools.origin.tracking.side import NONE, Side, read_side, tagged

_DEEPEST = 32  # calls within calls
OF_ITSELF = (Evidence.CONSTANT, Evidence.VALUES)
"""Evidence that needs no kinship of the models: it is what makes them kin."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why an operator has a source: the evidence, and the confidence, from 0 to 1."""

    evidence: Evidence
    confidence: float


@dataclass(frozen=True, slots=True)
class Tracking:
    """What was found: origins to embed in AFTER, and for each subgraph operator index -> source id -> grounds.

    `rows` are all operators of AFTER with what was found. `carried` says that the tables in AFTER are those of
    BEFORE: the tool kept the metadata without looking at it.
    """

    format: str
    origins: Origins
    grounds: tuple[Mapping[int, Mapping[int, Grounds]], ...]
    rows: tuple[OperatorRow, ...]
    carried: bool

    @property
    def without_origin(self) -> list[tuple[int, int]]:
        """Subgraph and index of the operators of which nothing is known."""
        return [(row.subgraph, row.index) for row in self.rows if row.index not in self.grounds[row.subgraph]]

    @property
    def notes(self) -> tuple[Finding, ...]:
        """How many operators are left without an origin; a warning where all are."""
        left, total = len(self.without_origin), len(self.rows)
        if not left:
            return ()
        message = f"{left} of {total} operators have no origin; complete the JSON and give it to `embed-origins`"
        return (Finding("OPERATORS_WITHOUT_ORIGIN", "warning" if left == total else "info", "", message),)


def track(before: Model, after: Model, *, min_confidence: float = 0.0) -> Tracking:
    """Give every operator of `after` the sources of `before` that it computes.

    Sources are those of the tables in `before`; where it has none, its operators, numbered over all subgraphs.
    Those with a confidence (from 0 to 1) below `min_confidence` are left out. Raises ModelFormatError for a broken
    model and TableFormatError for broken tables, with the name of the file in front of the location.

    >>> with ct.open("before.tflite") as before, ct.open("after.tflite") as after, ct.edit(after) as edit:
    ...     found = ct.track_origins(before, after, min_confidence=0.25)
    ...     ct.origins.embed(edit, found.origins, replace=found.carried)
    ...     edit.save("out.tflite")
    """
    try:
        return _track(before, after, min_confidence)
    except CircleToolsError as error:
        broken = _broken_alone(before)
        (broken or error).name_file((before if broken else after).source.name)
        raise (broken or error) from None


def _broken_alone(before: Model) -> CircleToolsError | None:
    """Return the error of comparing BEFORE with itself, if there is one: then it is about BEFORE."""
    try:
        _track(before, before, 0.0)
    except CircleToolsError as error:
        return error
    return None


def _track(before: Model, after: Model, min_confidence: float) -> Tracking:
    return track_from(before, _sources(before), after, min_confidence)


def track_from(before: Model, known: Origins, after: Model, min_confidence: float = 0.0) -> Tracking:
    """Do so for origins of `before` that need not be in it."""
    old, new = tagged(read_side(before), read_side(after))
    found = _operators(old, new)
    origin_of = [
        known.operators[subgraph].get(index, UNKNOWN)
        for subgraph, count in enumerate(np.diff(old.operator_splits).tolist())
        for index in range(count)
    ]
    grounds = [_by_source(entry, origin_of, min_confidence) for entry in found]
    splits = new.operator_splits.tolist()
    by_subgraph = tuple(
        {row - first: grounds[row] for row in range(first, end) if grounds[row]} for first, end in pairwise(splits)
    )
    operators: tuple[dict[int, Origin], ...] = tuple(
        {index: frozenset(sources) for index, sources in subgraph.items()} for subgraph in by_subgraph
    )
    origins = Origins(known.sources, operators, details=known.details)
    rows = operator_rows(model_graph(after), origins, Selection())
    return Tracking(after.format, origins, by_subgraph, tuple(rows), _carried_along(before, after))


def _carried_along(before: Model, after: Model) -> bool:
    """Say whether the tables in `after` are those of `before`: the tool copied the metadata unread."""
    return all(
        (old := before.metadata_value(name)) is not None and old == after.metadata_value(name)
        for name in (SOURCE_TABLE, OP_TABLE)
    )


def _by_source(found: Found, origin_of: list[Origin], least: float) -> dict[int, Grounds]:
    """Return the sources of what was found; of two ways to one source the surer counts."""
    if len(found) == 1:
        ((row, (evidence, confidence)),) = found.items()
        sure = confidence >= least
        return dict.fromkeys(sorted(origin_of[row]), Grounds(evidence, confidence)) if sure else {}
    best: dict[int, Grounds] = {}
    for row, (evidence, confidence) in found.items():
        if confidence >= least:
            for source in origin_of[row]:
                if source not in best or best[source].confidence < confidence:
                    best[source] = Grounds(evidence, confidence)
    return dict(sorted(best.items()))


def _sources(model: Model) -> Origins:
    """Return the origins in a model; without any, every operator is its own source, named after its first output."""
    origins = read_origins(model)
    if origins is not None:
        return origins
    outputs = [model.output_names(subgraph) for subgraph in range(len(model.subgraphs))]
    names = [text(own[0].partition(b"\0")[0] if own else b"") or NO_NAME for own in chain.from_iterable(outputs)]
    numbers = count()
    operators = ({index: frozenset((next(numbers),)) for index in range(len(own))} for own in outputs)
    return Origins(dict(enumerate(names)), tuple(operators))


def _operators(before: Side, after: Side) -> list[Found]:
    """Return for each operator of AFTER which of BEFORE's it computes."""
    anchors = Anchors()
    anchors.add(before, after, subgraph_pairs(before.model, after.model))
    matcher = Matcher(before, after, classify(before, after), anchors)
    ends = pair_by_name(matcher)
    if min(len(side.model.subgraphs) for side in (before, after)) > 1:
        # Subgraphs that look alike are told apart by who calls them: find that out before anything is chosen.
        called = Calls(before.model), Calls(after.model)
        matcher.match(choosing=False)
        _enter_called(matcher, called, choosing=False)
        matcher.match()
        _enter_called(matcher, called)
        if anchors.add(before, after, _left_over(matcher, called)):
            matcher.match()
            _enter_called(matcher, called)
    else:
        matcher.match()
    matcher.look_through_the_rest()
    matcher.match(by_size=False)
    matcher.look_at_everything()
    matcher.match()
    matcher.look_through_the_rest()
    revise(matcher)
    drop_the_unlikely(matcher)
    drop_the_adrift(matcher)
    scores = Scorer(matcher)
    paired: list[Found] = [
        {} if old == NONE else {old: (scores.evidence(old, new), scores.confidence(old, new))}
        for new, old in enumerate(matcher.pairs.to_before)
    ]
    kin = related(kinship(matcher, scores))
    return [
        {old: (why, _confidence(why, sure, kin)) for old, (why, sure) in entry.items()}
        for entry in cover(matcher, paired, ends)
    ]


def _confidence(evidence: Evidence, agreement: float, kin: float) -> float:
    sure = calibrated(evidence, agreement)
    return sure if evidence in OF_ITSELF else sure * kin


def _left_over(matcher: Matcher, calls: tuple[Calls, Calls]) -> list[tuple[int, int]]:
    """Return the subgraphs that nobody calls and that have no partner, in their order, if there are as many."""
    subgraphs = matcher.anchors.subgraphs
    left: list[list[int]] = []
    for side, own, known in zip(matcher.sides, calls, (set(subgraphs), set(subgraphs.values())), strict=True):
        taken = {callee for callees in own.by_row.values() for callee in callees} | known
        left.append([number for number in range(len(side.model.subgraphs)) if number not in taken])
    return list(zip(*left, strict=True)) if len(left[0]) == len(left[1]) else []


def _enter_called(matcher: Matcher, calls: tuple[Calls, Calls], *, choosing: bool = True) -> None:
    """Pair the subgraphs that paired operators call, and match again, as deep as calls go."""
    sides, called = (matcher.before, matcher.after), [side.by_row for side in calls]
    counts = [len(side.model.subgraphs) for side in sides]
    entered: set[tuple[int, int]] = set()
    for _ in range(_DEEPEST):
        callers = {
            (old, new) for new, old in enumerate(matcher.pairs.to_before) if old in called[0] and new in called[1]
        }
        pairs = [
            pair
            for old, new in sorted(callers - entered, key=lambda caller: caller[1])
            for pair in zip(called[0][old], called[1][new], strict=False)
            if all(0 <= subgraph < count for subgraph, count in zip(pair, counts, strict=True))
        ]
        entered |= callers
        if not matcher.anchors.add(*sides, pairs):
            return
        matcher.match(choosing=choosing)
