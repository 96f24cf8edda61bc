"""Track origins to a model written by a tool that does not keep them.

Two models must be the same network; if they are not, similarities are coincidences.

The following criteria decide, in this order, whether they are:

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

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.errors import CircleToolsError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.columns import Mask
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.keys import Interning
from circletools.model.model import Model
from circletools.origin.describe import OperatorRow, Selection, operator_rows
from circletools.origin.embed import TAG, only_tags, tags_of
from circletools.origin.names import origins_by_output
from circletools.origin.read import Origins, origins_in
from circletools.origin.source import UNKNOWN, Origin
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE
from circletools.origin.tracking.constants import classify
from circletools.origin.tracking.cover import cover
from circletools.origin.tracking.ends import (
    Found,
    Grounds,
    Names,
    drop_disconnected_pairs,
    evidence_of,
    pair_ends,
    recheck_ends,
    resized,
)
from circletools.origin.tracking.match import match, pair_by_name
from circletools.origin.tracking.view import CONVERSIONS, NONE, Pairs, Side, Views, ends_of, look
from circletools.wording import Attributes

# --- passes over each pair of subgraphs ---------------------------------------------------------------------------
# Subgraphs are paired by signature, then the main ones, then those called by paired operators (IF, WHILE, CALL, ...).
# Each pass is a pure function that takes views of the two graphs and the pairs so far, and returns new pairs.
# Operators are neighbors if only hidden operators lie between them:
#
#     names, match     conversions (QUANTIZE, ...) are hidden
#     match            nothing is hidden, so conversions are paired too
#     recheck, drop    pairs of ends that were cut, and pairs in parts that fit in several places, are dropped
#     cover            operators without a partner: regions, fused, folded, inserted


_OPAQUE = ("CUSTOM", "DELEGATE")


@dataclass(frozen=True, eq=False)
class Tracked:
    """The result for two graphs: pairs, and the operators of BEFORE that each operator of AFTER computes.

    `opaque` holds the operators of AFTER that can contain many others, such as compiled programs.
    """

    views: Views
    pairs: Pairs
    found: list[Found]
    opaque: set[int]


def track_graphs(
    before: Side, after: Side, ends: tuple[tuple[Names, Names], tuple[Names, Names]], tags: frozenset[bytes]
) -> Tracked:
    """Run the passes; `ends` holds signature names of inputs and outputs, and `tags` the tags of BEFORE's values."""
    sides = before, after
    pairs = pair_ends(before, after, ends)
    sizes = [side.sizes(resized(before, after, pairs)) for side in sides]
    conversions = [side.is_any(CONVERSIONS) for side in sides]
    codes = {code for code in set(after.codes).difference(before.codes) if code.startswith(_OPAQUE)}
    custom = after.is_any(codes)

    views = _views(sides, conversions)
    pairs = pair_by_name(views, pairs, sizes, tagged=bool(tags), opaque=set(np.flatnonzero(custom).tolist()))
    pairs = match(views, pairs, sizes)
    views = _views(sides, [np.zeros(len(side), np.bool_) for side in sides])
    pairs = match(views, pairs, sizes)
    left = [mask & pairs.unpaired(side) for side, mask in enumerate(conversions)]
    pairs = recheck_ends(_views(sides, left), pairs)
    if not tags:
        pairs = drop_disconnected_pairs(views, pairs)
    opaque = set(np.flatnonzero(custom & pairs.unpaired(1)).tolist())
    views = views[0], look(after, conversions[1] & pairs.unpaired(1))
    return Tracked(views, pairs, cover(views, pairs, evidence_of(views, pairs, tags), opaque), opaque)


def _views(sides: tuple[Side, Side], hidden: list[Mask]) -> Views:
    return look(sides[0], hidden[0]), look(sides[1], hidden[1])


Couple = tuple[int, int]
"""A subgraph of BEFORE and one of AFTER."""

Tags = Sequence[Mapping[int, bytes]]
"""The tags of values, by subgraph."""


def track_models(before: ModelGraph, after: ModelGraph, tags: Tags) -> dict[Couple, Tracked]:
    """Return the result for each pair of subgraphs. `tags` holds the tags of BEFORE's values.

    Raises ModelFormatError for an index out of range.
    """
    *classes, constants = classify(before.graphs, after.graphs)
    names, used = _names(before, after, tags)
    tracked: dict[Couple, Tracked] = {}
    taken: tuple[set[int], set[int]] = set(), set()
    waiting = deque(_certain(before, after))
    while waiting:
        old, new = waiting.popleft()
        if old in taken[0] or new in taken[1]:
            continue
        taken[0].add(old)
        taken[1].add(new)
        graphs = before.graphs[old], after.graphs[new]
        number = Interning().keys
        sides = [
            Side(graph, own[graph.index], number(graph.operators.code_names), held[graph.index], constants)
            for graph, own, held in zip(graphs, names, classes, strict=True)
        ]
        signatures = [_signature_names(model, graph) for model, graph in zip((before, after), graphs, strict=True)]
        ends = (signatures[0][0], signatures[1][0]), (signatures[0][1], signatures[1][1])
        tracked[old, new] = track_graphs(sides[0], sides[1], ends, used)
        waiting += _called(graphs, tracked[old, new], (len(before.graphs), len(after.graphs)))
        if not waiting:
            waiting += _remaining_couples(before, after, taken)
    return tracked


def _names(
    before: ModelGraph, after: ModelGraph, tags: Tags
) -> tuple[tuple[list[list[bytes]], list[list[bytes]]], frozenset[bytes]]:
    """Return the names of values, graph by graph (tags if AFTER has tags of BEFORE), and the tags used."""
    olds, news = ([graph.values.names for graph in model.graphs] for model in (before, after))
    known = frozenset(tag for own in tags for tag in own.values())
    tagged = [[only_tags(name, known) for name in own] if any(map(TAG.search, own)) else own for own in news]
    if known.isdisjoint(part for own in tagged for name in own for part in name.split(b";")):
        return (olds, news), frozenset()
    olds = [[tag.get(value, name) for value, name in enumerate(own)] for tag, own in zip(tags, olds, strict=True)]
    return (olds, tagged), known


def _certain(before: ModelGraph, after: ModelGraph) -> Iterator[Couple]:
    """Yield the subgraphs paired by signature, then the main ones."""
    old_keys = {signature.key: signature.subgraph for signature in before.source.signatures}
    for signature in after.source.signatures:
        old = old_keys.get(signature.key, len(before.graphs))
        if old < len(before.graphs) and signature.subgraph < len(after.graphs):
            yield old, signature.subgraph
    if before.graphs and after.graphs:
        yield 0, 0


def _called(graphs: tuple[Graph, Graph], tracked: Tracked, counts: tuple[int, int]) -> Iterator[Couple]:
    """Yield each pair of subgraphs that paired operators call, in the order of the operators' fields."""
    was, now = (graph.callees for graph in graphs)
    for new, callees in sorted(now.items()):
        old = int(tracked.pairs.to_before[new])
        for couple in zip(was.get(old, ()), callees, strict=False) if old != NONE else ():
            if all(0 <= subgraph < count for subgraph, count in zip(couple, counts, strict=True)):
                yield couple


def _remaining_couples(before: ModelGraph, after: ModelGraph, taken: tuple[set[int], set[int]]) -> list[Couple]:
    """Pair the remaining subgraphs that no operator calls, in order, if both models have the same number."""
    left = []
    for side, model in enumerate((before, after)):
        called = taken[side].union(*model.callees.values())
        left.append([graph.index for graph in model.graphs if graph.index not in called])
    return list(zip(*left, strict=True)) if len(left[0]) == len(left[1]) else []


def _signature_names(model: ModelGraph, graph: Graph) -> tuple[Names, Names]:
    """Return the inputs and outputs of a graph by their names in signatures."""
    inputs, outputs = dict[str, int](), dict[str, int]()
    for signature in model.source.signatures:
        if signature.subgraph == graph.index:
            for found, ends in ((inputs, signature.inputs), (outputs, signature.outputs)):
                found |= {name: tensor for name, tensor in ends if 0 <= tensor < len(graph.values)}
    return inputs, outputs


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
    """Track origins like `track`, with `known` as the origins of `before` unless it is None."""
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
    old, new = ([one.metadata_value(name) for name in (SOURCE_TABLE, OP_TABLE)] for one in (before, after))
    carried = None not in old and old == new  # the tool copied the tables without reading them
    return Tracking(after.source.format, origins, tuple(grounds), tuple(rows), carried)


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
