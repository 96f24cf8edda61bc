"""Whether two models are the same network: if not, similarities are coincidences.

Constants decide if both models have significant ones: a tool that quantizes or optimises a model leaves most of them
recognisable, whereas two networks of one structure share none. If there are none to compare, names with a path decide
(`tower/add`; exporters give `add_3` and `Identity` to every model), or how much of the larger model is paired. A
compiler may leave nothing but the ends:

    before   x: [1,96,96,3] -> 31 operators -> y: [1,2]      equally many inputs and outputs, of equal types, shapes
    after    x: [1,96,96,3] ---> ethos-u ----> y: [1,2]      and names; otherwise the models are strangers
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.origin.tracking.ends import resized
from circletools.origin.tracking.passes import Tracked
from circletools.origin.tracking.side import CONVERSIONS, NONE, ends_of
from circletools.origin.tracking.view import same_slots

SAME, LOOKALIKE, STRANGERS = 1.0, 0.4, 0.0
"""The factor for the confidence of every origin that does not rest on an equal constant.

Lookalikes have one structure, and constants or names of which they share none: whether one was trained from the other
is not known.
"""

_PROGRAM = 1 << 14  # bytes that a compiler writes for an operator
_QUARTER, _HALF, _MOST, _NEARLY_ALL = 0.25, 0.5, 0.75, 0.9


def relation(graphs: Sequence[Tracked]) -> float:
    """Return how two models are related, given their tracked graphs."""
    opaque = any(one.opaque for one in graphs)
    common, fewest = _constants_in_common(graphs)
    if fewest and common >= _QUARTER * fewest:
        return SAME
    if opaque:
        if not all(_can_hold(one) and _same_ends(one) for one in graphs):
            return STRANGERS
        if not fewest or _inner_names(graphs) >= _HALF:
            return SAME
    if not (opaque or fewest) and _paths_in_common(graphs) >= _HALF:
        return SAME
    before, after = (_working(graphs, side) for side in (0, 1))
    larger = after - sum(len(one.opaque) for one in graphs) if opaque else max(before, after)
    agreeing = sum(one.agreeing for one in graphs) if opaque or all(map(_same_sizes, graphs)) else 0.0
    placed = min(1.0, agreeing / larger) if larger else (0.0 if opaque else 1.0)
    named = all(any(_has_names(one, side) for one in graphs) for side in (0, 1))
    agreed = any(one.pairs.by_name for one in graphs) and (_inner_names(graphs) or not any(map(_inner, graphs)))
    if fewest or (named and not agreed):
        return LOOKALIKE if placed >= _NEARLY_ALL else STRANGERS
    return SAME if placed >= _MOST else LOOKALIKE if placed >= _HALF else STRANGERS


def _working(graphs: Sequence[Tracked], side: int) -> int:
    """Return the larger number of operators, other than conversions, of the two models."""
    return sum(code not in CONVERSIONS for one in graphs for code in one.views[side].side.codes)


def _constants_in_common(graphs: Sequence[Tracked]) -> tuple[int, int]:
    """Return how many significant constants both models have, and the total of the model that has fewer.

    Constants of opaque operators do not count.
    """
    held = [np.empty(0, np.int64), np.empty(0, np.int64)]
    for one in graphs:
        for side, view in enumerate(one.views):
            operators, values = view.side.graph.uses
            values = values[~np.isin(operators, list(one.opaque))] if side else values
            classes = view.side.constant[values]
            telling = np.append(view.side.constants.distinctive, False)[classes]
            held[side] = np.union1d(held[side], classes[telling])
    return len(np.intersect1d(held[0], held[1])), min(map(len, held))


def _paths_in_common(graphs: Sequence[Tracked]) -> float:
    """Return the share of the smaller model whose partners have the same name, if that name has a path."""
    known = 0
    for one in graphs:
        was, now = (view.side for view in one.views)
        news = np.flatnonzero(~one.pairs.unpaired(1) & one.pairs.by_name)
        firsts = [(was.first[one.pairs.to_before[new]], now.first[new]) for new in news.tolist()]
        known += sum(
            NONE not in couple and b"/" in was.names[couple[0]] and was.names[couple[0]] == now.names[couple[1]]
            for couple in firsts
        )
    return known / max(1, min(_working(graphs, side) for side in (0, 1)))


def _inner_names(graphs: Sequence[Tracked]) -> float:
    """Return the share of AFTER's inner values whose names BEFORE has too."""
    known = {name for one in graphs for name in one.views[0].side.names} - {b""}
    inner = [name for one in graphs for name in _inner(one)]
    return sum(name in known for name in inner) / max(1, len(inner))


def _inner(one: Tracked) -> list[bytes]:
    """Return the names of AFTER's computed values, without outputs: exporters give those of every model one name."""
    now = one.views[1].side
    return [now.names[value] for value in np.setdiff1d(now.graph.definitions.values, now.graph.outputs).tolist()]


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
    """Return whether the inputs and outputs are equal in number, types, shapes and, if both have any, names."""
    was, now = (view.side for view in one.views)
    types = was.graph.values.types, now.graph.values.types
    for old_ends, new_ends, known in zip(
        ends_of(was.graph), ends_of(now.graph), (one.pairs.inputs, one.pairs.outputs), strict=True
    ):
        paired = {old for old, _ in known}, {new for _, new in known}
        if len(old_ends) != len(new_ends) or (set(old_ends), set(new_ends)) != paired:
            return False
        for old, new in known:
            names = was.names[old], now.names[new]
            same = types[0][old] == types[1][new] and was.shape(old) == now.shape(new)
            if not same or (all(names) and names[0] != names[1]):
                return False
    return True


def _same_sizes(one: Tracked) -> bool:
    """Return whether the constants of paired operators have equal sizes, or without constants, inputs and outputs.

    Another batch or resolution changes results, but no weights.
    """
    was, now = one.views
    news, olds, _ = same_slots(one.views, one.pairs)
    values = was.read[olds], now.read[news]
    telling = np.append(was.side.constants.distinctive, False)
    both = telling[was.side.constant[values[0]]] & telling[now.side.constant[values[1]]]
    if not both.any():
        return not resized(was.side, now.side, one.pairs)
    return bool(np.mean(was.side.elements[values[0][both]] == now.side.elements[values[1][both]]) >= _NEARLY_ALL)


def _has_names(one: Tracked, side: int) -> bool:
    this = one.views[side].side
    return any(this.names[value] for value in this.graph.definitions.values.tolist())
