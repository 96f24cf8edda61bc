"""Whether two models are the same network: if not, similarities are coincidences.

These decide, in this order:

    constants    a tool that quantizes or optimizes a model leaves most of them recognizable, whereas two networks of
                 one structure share none
    names        with a path, such as `tower/add`; exporters give `add_3` and `Identity` to every model
    ends         without either, two models are the same only if nothing differs: number and
                 shapes of inputs and outputs are equal, and most operators are paired

A compiler may leave nothing but the ends, and its program must be able to hold the constants that are gone:

    before   x: [1,96,96,3] -> 31 operators -> y: [1,2]
    after    x: [1,96,96,3] ---> ethos-u ----> y: [1,2]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.graph.columns import Mask
from circletools.origin.tags import TAG
from circletools.origin.tracking.passes import Tracked
from circletools.origin.tracking.side import CONVERSIONS, ends_of

_PROGRAM = 1 << 14  # bytes that a compiler writes for an operator
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
    """Return which operators of a graph are not conversions."""
    working: Mask = ~one.views[side].side.is_any(CONVERSIONS)
    return working


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


def _names_in_common(graphs: Sequence[Tracked]) -> float | None:
    """Return the share of names with a path that both models have, of the model that has fewer; None without any."""
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
