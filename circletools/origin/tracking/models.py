"""Track each pair of subgraphs of two models, in passes.

Subgraphs are paired by signature, then the main ones, then those called by paired operators (IF, WHILE, CALL, ...).
Each pass is a pure function that takes views of the two graphs and the pairs so far, and returns new pairs. Operators
are neighbours if only hidden operators lie between them:

    names, match     conversions (QUANTIZE, ...) are hidden
    match            nothing is hidden, so conversions are paired too
    recheck, drop    pairs of ends that were cut, and pairs in parts that fit in several places, are dropped
    cover            operators without a partner: regions, fused, folded, inserted
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.graph.columns import Mask
from circletools.graph.graph import Graph, ModelGraph
from circletools.origin.tags import TAG, only_tags
from circletools.origin.tracking.constants import classify
from circletools.origin.tracking.cover import cover
from circletools.origin.tracking.ends import Names, pair_ends, recheck_ends, resized
from circletools.origin.tracking.evidence import Found, drop_disconnected_pairs, evidence_of
from circletools.origin.tracking.match import match
from circletools.origin.tracking.names import pair_by_name
from circletools.origin.tracking.view import CONVERSIONS, NONE, Pairs, Side, Views, look

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
        codes: dict[str, int] = {}
        numbers = [[codes.setdefault(code, len(codes)) for code in graph.operators.code_names] for graph in graphs]
        sides = [
            Side(graph, names[side][graph.index], np.array(own, np.int64), classes[side][graph.index], constants)
            for side, (graph, own) in enumerate(zip(graphs, numbers, strict=True))
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
    old_keys = {signature.key: signature.subgraph for signature in before.signatures}
    for signature in after.signatures:
        old = old_keys.get(signature.key, len(before.graphs))
        if old < len(before.graphs) and signature.subgraph < len(after.graphs):
            yield old, signature.subgraph
    if before.graphs and after.graphs:
        yield 0, 0


def _called(graphs: tuple[Graph, Graph], tracked: Tracked, counts: tuple[int, int]) -> Iterator[Couple]:
    """Yield the subgraphs that paired operators call, in the order of their fields."""
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
    for signature in model.signatures:
        if signature.subgraph == graph.index:
            for found, ends in ((inputs, signature.inputs), (outputs, signature.outputs)):
                found |= {name: tensor for name, tensor in ends if 0 <= tensor < len(graph.values)}
    return inputs, outputs
