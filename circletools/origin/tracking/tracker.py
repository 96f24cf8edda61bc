"""Track origins to a model written by a tool that does not keep them.

Two models must be the same network; if they are not, similarities are coincidences.

The following decide whether they are, in this order:

    constants    a tool that quantizes or optimizes a model leaves most of them recognizable, whereas different
                 networks of equal structure share none
    names        those with a path, such as `tower/add`; exporters give `add_3` and `Identity` to every model
    ends         without the other two, the networks are the same only if the inputs and outputs are equal in number
                 and shape, and most operators are paired

A compiler may leave nothing but the ends; its program must then be large enough for the constants that are gone:

    before   x: [1,96,96,3] -> 31 operators -> y: [1,2]
    after    x: [1,96,96,3] ---> ethos-u ----> y: [1,2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.errors import CircleToolsError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.columns import Mask
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.origin.describe import OperatorRow, Selection, operator_rows
from circletools.origin.names import origins_by_output
from circletools.origin.read import Origins, origins_in
from circletools.origin.source import UNKNOWN, Origin
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE
from circletools.origin.tags import TAG, tags_of
from circletools.origin.tracking.evidence import Found, Grounds
from circletools.origin.tracking.models import Tracked, track_models
from circletools.origin.tracking.view import CONVERSIONS, ends_of
from circletools.wording import Attributes

_ANCHORED = "CUSTOM:TFLite_Detection_PostProcess"
_PROGRAM = 1 << 14  # the most bytes that a compiler writes for an operator
_QUARTER, _HALF, _MOST = 0.25, 0.5, 0.75


def is_same_network(graphs: Sequence[Tracked]) -> bool:
    """Return whether two models are the same network, given their tracked graphs."""
    common, fewest = _constants_in_common(graphs)
    if fewest and common >= _QUARTER * fewest:
        return True
    if any(one.opaque for one in graphs):
        possible = all(_can_hold(one) and _same_ends(one) for one in graphs)
        return possible and (not fewest or (_names_in_common(graphs) or 0.0) >= _HALF)
    if fewest:
        return False
    named = _names_in_common(graphs)
    if named is not None:
        return named >= _HALF
    larger = max(sum(int(_working(one, side).sum()) for one in graphs) for side in (0, 1))
    paired = sum(int((_working(one, 1) & ~one.pairs.unpaired(1)).sum()) for one in graphs)
    return paired >= _MOST * larger and all(map(_same_ends, graphs))


def _working(one: Tracked, side: int) -> Mask:
    """Return a mask of the operators of a graph that are not conversions."""
    working: Mask = ~one.views[side].side.is_any(CONVERSIONS)
    return working


def _constants_in_common(graphs: Sequence[Tracked]) -> tuple[int, int]:
    """Return how many significant constants both models share, and the total of the model that has fewer.

    Constants of opaque operators do not count. Nor do anchor boxes, which detectors with equal input sizes share.
    """
    held = [np.empty(0, np.int64), np.empty(0, np.int64)]
    for one in graphs:
        for side, view in enumerate(one.views):
            operators, values = view.side.graph.uses
            left_out = view.side.is_any((_ANCHORED,))
            left_out[list(one.opaque) if side else []] = True
            values = values[~left_out[operators]]
            classes = view.side.constant[values]
            telling = np.append(view.side.constants.distinctive, False)[classes]
            held[side] = np.union1d(held[side], classes[telling])
    return len(np.intersect1d(held[0], held[1])), min(map(len, held))


def _names_in_common(graphs: Sequence[Tracked]) -> float | None:
    """Return the share of common names with a path, relative to the model with fewer; None if a model has none."""
    named: tuple[set[bytes], set[bytes]] = set(), set()
    for one in graphs:
        for names, view in zip(named, one.views, strict=True):
            made = (view.side.names[value] for value in view.side.graph.definitions.values.tolist())
            names.update(name for name in made if b"/" in name or TAG.search(name))
    return len(named[0] & named[1]) / min(map(len, named)) if all(named) else None


def _can_hold(one: Tracked) -> bool:
    """Return whether the size of opaque operators fits the BEFORE constants they must hold, within a factor of two.

    Compilers store weights in 8 bits or unchanged, sometimes compressed, together with a program.
    """
    if not one.opaque:
        return True
    was, now = (view.side for view in one.views)
    operators, values = was.graph.uses
    gone = one.pairs.unpaired(0)
    held = np.unique(values[gone[operators] & was.is_constant[values]])
    elements, size = was.elements[held].sum(), was.graph.values.bytes[held].sum()
    tables, opaque = now.graph.operators.tables, np.array(sorted(one.opaque))
    written = int(tables.vectors("custom_options").count[opaque].sum())
    written += int(tables.scalars("large_custom_options_size")[opaque].sum())
    operators, values = now.graph.uses
    read = np.unique(values[np.isin(operators, opaque) & now.is_constant[values]])
    written += int(now.graph.values.bytes[read].sum())
    return bool(elements / 2 <= written <= 2 * size + _PROGRAM * gone.sum())


def _same_ends(one: Tracked) -> bool:
    """Return whether the inputs and outputs are equal in number and in shape, apart from dimensions of 1.

    A compiler that hides operators changes neither types nor names of ends, unlike a tool that quantizes.
    """
    was, now = (view.side for view in one.views)
    for old_ends, new_ends, known in zip(
        ends_of(was.graph), ends_of(now.graph), (one.pairs.inputs, one.pairs.outputs), strict=True
    ):
        paired = {old for old, _ in known}, {new for _, new in known}
        if len(old_ends) != len(new_ends) or (set(old_ends), set(new_ends)) != paired:
            return False
        for old, new in known:
            names = was.names[old], now.names[new]
            kept = was.graph.values.types[old] == now.graph.values.types[new] and (
                not all(names) or names[0] == names[1]
            )
            shapes = ([size for size in side.shape(end) if size != 1] for side, end in ((was, old), (now, new)))
            if (one.opaque and not kept) or next(shapes) != next(shapes):
                return False
    return True


@dataclass(frozen=True, slots=True)
class Tracking(Attributes):
    """The result: origins to embed in AFTER, and, for each subgraph, operator index -> source id -> grounds.

    `rows` holds all operators of AFTER with their evidence. `carried` means that the tables in AFTER are those of
    BEFORE: the tool copied the metadata without updating it.
    """

    format: str
    origins: Origins
    grounds: tuple[Mapping[int, Mapping[int, Grounds]], ...]
    rows: tuple[OperatorRow, ...]
    carried: bool

    @property
    def without_origin(self) -> list[tuple[int, int]]:
        """The subgraph and index of each operator without a known origin."""
        return [(row.subgraph, row.index) for row in self.rows if row.index not in self.grounds[row.subgraph]]

    @property
    def notes(self) -> tuple[Finding, ...]:
        """A note with the number of operators without an origin; a warning if no operator has one."""
        left, total = len(self.without_origin), len(self.rows)
        if not left:
            return ()
        message = f"there is no origin for {left} of {total} operators; complete the JSON for `embed-origins`"
        return (Finding("OPERATORS_WITHOUT_ORIGIN", "warning" if left == total else "info", "", message),)


def track(before: Model, after: Model, *, min_confidence: float = 0.0) -> Tracking:
    """Give every operator of `after` the sources of the operators of `before` that it computes.

    The sources are those in the tables of `before`; without tables, they are its operators, numbered over all
    subgraphs. Sources with a confidence (from 0 to 1) below `min_confidence` are omitted. Raises ModelFormatError for
    a broken model and TableFormatError for broken tables, with the name of the file before the location.

    >>> with ct.open("before.tflite") as before, ct.open("after.tflite") as after, ct.edit(after) as edit:
    ...     found = ct.track_origins(before, after, min_confidence=0.25)
    ...     ct.origins.embed(edit, found.origins, replace=found.carried)
    ...     edit.save("out.tflite")
    """
    graphs = model_graph(before), model_graph(after)
    try:
        return track_from(graphs[0], None, graphs[1], min_confidence)
    except CircleToolsError as error:
        error.name_file((before if _is_broken(graphs[0]) else after).source.name)
        raise


def _is_broken(graph: ModelGraph) -> bool:
    """Return whether comparing a model with itself fails."""
    try:
        track_from(graph, None, graph)
    except CircleToolsError:
        return True
    return False


def track_from(before: ModelGraph, known: Origins | None, after: ModelGraph, min_confidence: float = 0.0) -> Tracking:
    """Do the same as `track`, but with `known` as the origins of `before`, unless `known` is None."""
    if known is None:  # without tables, each operator is a source
        known = origins_in(before) or origins_by_output(before, range(len(before)))
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
    """Return the sources of the operators found; if a source is found twice, the higher confidence counts."""
    best: dict[int, Grounds] = {}
    for row, one in found.items():
        grounds = one if same else Grounds(one.evidence, 0.0)
        if grounds.confidence >= least:
            for source in origin_of.get(row, UNKNOWN):
                if source not in best or best[source].confidence < grounds.confidence:
                    best[source] = grounds
    return dict(sorted(best.items())) if len(best) > 1 else best
